/**
 * Classifies an etcd reply: value, coded error, or retryable, and whether etcd may have executed the request. An
 * unknown failure counts as maybe executed.
 *
 *   no connection, "no leader"             not executed
 *   timeout, leader change, lost reply     maybe executed
 */
import { RemusterError, type ErrorCode } from '../../base/errors.ts';
import { type EtcdHttpReply, type EtcdHttpFailure, timeoutReason } from './etcd-http.ts';

export type EtcdOutcome =
  | { readonly kind: 'value'; readonly body: Readonly<Record<string, unknown>> }
  | { readonly kind: 'refused'; readonly error: RemusterError; readonly etcdMessage: string }
  | { readonly kind: 'retryable'; readonly executed: 'no' | 'maybe'; readonly code: ErrorCode; readonly reason: string }
  | { readonly kind: 'authenticate' };

/** Status codes of gRPC, which the gateway passes on. */
const grpc = {
  invalidArgument: 3,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unauthenticated: 16,
} as const;

export function classifyEtcdReply(reply: EtcdHttpReply | EtcdHttpFailure): EtcdOutcome {
  if (reply.kind === 'failed') return classifyFailure(reply);
  const { body } = reply;
  if (typeof body !== 'object' || body === null)
    return retryable('maybe', 'MALFORMED', `HTTP status ${reply.status} without JSON: is this an etcd server?`);
  const error = etcdErrorIn(body);
  if (error !== undefined) return classifyError(error);
  // The reply of a streaming method is wrapped in `result`.
  const value = 'result' in body ? body.result : body;
  return { kind: 'value', body: value as Readonly<Record<string, unknown>> };
}

function classifyFailure({ stage, reason }: EtcdHttpFailure): EtcdOutcome {
  if (stage === 'queued') return retryable('no', 'CAPACITY', 'all connections to etcd were busy');
  if (stage === 'connecting') return retryable('no', 'UNREACHABLE', reason);
  if (stage === 'sent') return retryable('maybe', reason === timeoutReason ? 'DEADLINE' : 'UNREACHABLE', reason);
  return {
    kind: 'refused',
    error: new RemusterError('TOO_LARGE', 'the reply of etcd is too large', 'maybe'),
    etcdMessage: reason,
  };
}

type EtcdError = { readonly code: number; readonly text: string };

/** Plain and streaming methods encode errors differently. */
export function etcdErrorIn(body: object): EtcdError | undefined {
  if (!('error' in body)) return undefined;
  const outer = body as { error: unknown; code?: unknown; message?: unknown };
  const inner = (typeof outer.error === 'object' ? outer.error : {}) as { grpc_code?: unknown; message?: unknown };
  const code = Number(outer.code ?? inner.grpc_code ?? -1);
  return { code, text: String(outer.message ?? inner.message ?? outer.error) };
}

function classifyError({ code, text }: EtcdError): EtcdOutcome {
  const refused = (errorCode: ErrorCode): EtcdOutcome => ({
    kind: 'refused',
    error: new RemusterError(errorCode, text),
    etcdMessage: text,
  });
  if (code === grpc.unauthenticated || text.includes('user name is empty')) return { kind: 'authenticate' };
  if (text.includes('no leader')) return retryable('no', 'NO_QUORUM', text);
  if (text.includes('too many requests')) return retryable('no', 'CAPACITY', text);
  if (text.includes('database space exceeded')) return refused('STORE_FULL');
  if (code === grpc.resourceExhausted || /too large|too many operations/.test(text)) return refused('TOO_LARGE');
  if (code === grpc.notFound && text.includes('lease')) return refused('LEASE_EXPIRED');
  if (code === grpc.permissionDenied) return refused('FORBIDDEN');
  if (text.includes('authentication failed')) return refused('UNAUTHENTICATED');
  if (code === grpc.invalidArgument) return refused('BAD_ARGUMENT');
  if (code === grpc.failedPrecondition || code === grpc.outOfRange || code === grpc.notFound)
    return refused('PRECONDITION');
  return retryable('maybe', 'NO_QUORUM', text);
}

function retryable(executed: 'no' | 'maybe', code: ErrorCode, reason: string): EtcdOutcome {
  return { kind: 'retryable', executed, code, reason };
}
