/** Converts calls, routes and results to messages and back. Strict on input: a malformed route is BAD_ARGUMENT. */
import { type Outcome, RemusterError, isRemusterError, parseErrorCode, failure, success } from '../../base/errors.ts';
import type { CallId } from '../../base/ids.ts';
import { type CallMessageOf, type WireCallPart, type WireRoute, errorTextBytesMax } from '../../messages/calls.ts';
import { encodeMessage } from '../../messages/catalogue.ts';
import type { ContainerCallResult, CallResult, KnownPool, RoutedCall } from '../contract.ts';
import type { Route } from '../module.ts';

export function routeToWire(route: Route): WireRoute {
  const nothing = { key: undefined, number: undefined, count: undefined };
  if ('hash' in route) {
    if (typeof route.hash === 'string') return { ...nothing, mode: 'hash', key: route.hash };
    return { ...nothing, mode: 'number', number: route.hash };
  }
  if ('id' in route) return { ...nothing, mode: 'id', number: route.id };
  if ('range' in route) return { ...nothing, mode: 'range', number: route.range[0], count: route.range[1] };
  if ('node' in route) return { ...nothing, mode: 'node', key: route.node };
  return { ...nothing, mode: 'broadcast' in route ? 'broadcast' : 'local' in route ? 'local' : 'dynamic' };
}

export function routeFromWire({ mode, key, number, count }: WireRoute): Route {
  if (mode === 'broadcast') return { broadcast: true };
  if (mode === 'local') return { local: true };
  if (mode === 'dynamic') return { dynamic: true };
  if (mode === 'hash' && key !== undefined) return { hash: key };
  if (mode === 'node' && key !== undefined) return { node: key };
  if (mode === 'number' && number !== undefined) return { hash: number };
  if (mode === 'id' && number !== undefined) return { id: number };
  if (mode === 'range' && number !== undefined && count !== undefined) return { range: [number, count] };
  throw new RemusterError('BAD_ARGUMENT', `malformed route: mode ${mode} lacks its key or number`);
}

export function routeCallToMessage(call: RoutedCall): CallMessageOf<'routeCall'> {
  const { pool, method, args, lowestPending, retryTimeoutMs } = call;
  return {
    kind: 'routeCall',
    ...call.id,
    lowestPending,
    pool,
    route: routeToWire(call.route),
    retryTimeoutMs,
    method,
    args,
  };
}

/** The message to the owner of one container. `version`: that of the entry in the address table of the sender. */
export function encodeContainerCall(
  { id, lowestPending, method, args }: Pick<RoutedCall, 'id' | 'lowestPending' | 'method' | 'args'>,
  pool: KnownPool,
  container: number,
  version: number,
): Uint8Array {
  const { session, generation, counter } = id;
  return encodeMessage({
    kind: 'call',
    session,
    generation,
    counter,
    lowestPending,
    pool: pool.record.major,
    container,
    version,
    method,
    args,
  });
}

/** `timeoutMs`: the rest of the deadline that arrived with the message. */
export function routeCallFromMessage(message: CallMessageOf<'routeCall'>, timeoutMs: number): RoutedCall {
  const { pool, method, args, lowestPending, retryTimeoutMs } = message;
  return {
    pool,
    method,
    args,
    route: routeFromWire(message.route),
    id: callIdFields(message),
    lowestPending,
    timeoutMs,
    retryTimeoutMs,
  };
}

export function callIdFields({ session, generation, counter }: CallId): CallId {
  return { session, generation, counter };
}

const nothing = {
  value: undefined,
  parts: undefined,
  stream: undefined,
  code: undefined,
  message: undefined,
  stateChanged: undefined,
};

export function routeCallReplyOf(outcome: Outcome<CallResult>): CallMessageOf<'routeCallReply'> {
  if (!outcome.ok) {
    const { code, message, stateChanged } = outcome.error;
    return { ...nothing, kind: 'routeCallReply', code, message: truncateErrorText(message), stateChanged };
  }
  const result = outcome.value;
  if ('stream' in result) return { ...nothing, kind: 'routeCallReply', stream: true };
  if ('value' in result) return { ...nothing, kind: 'routeCallReply', value: result.value };
  return { ...nothing, kind: 'routeCallReply', parts: result.parts.map(partToWire) };
}

/** `stream`: the method is a generator, so the client opens a result stream. */
export function callResultOfReply(
  message: CallMessageOf<'routeCallReply'>,
): Outcome<Exclude<CallResult, { stream: unknown }> | { readonly stream: true }> {
  const { value, parts, stream, code, message: text, stateChanged = 'maybe' } = message;
  if (code !== undefined) return failure(parseErrorCode(code), text, stateChanged);
  if (stream === true) return success({ stream });
  if (value !== undefined) return success({ value });
  if (parts !== undefined) return success({ parts: parts.map(partFromWire) });
  return failure('MALFORMED', 'malformed routeCallReply: it has no value, parts, stream or code');
}

/** A message that exceeds a bound is a failure; it does not throw. */
export function encodeCallMessage(message: Parameters<typeof encodeMessage>[0]): Outcome<Uint8Array> {
  try {
    return success(encodeMessage(message));
  } catch (error) {
    if (isRemusterError(error)) return { ok: false, error };
    throw error;
  }
}

/** The text of an error, well-formed and within the bound of a message. */
export function truncateErrorText(text: string): string {
  const wellFormed = text.toWellFormed();
  // UTF-8 has at most three bytes per UTF-16 unit.
  return wellFormed.length * 3 <= errorTextBytesMax ? wellFormed : truncateUtf8(wellFormed);
}

const encoder = new TextEncoder();

function truncateUtf8(text: string): string {
  const { read } = encoder.encodeInto(text, new Uint8Array(errorTextBytesMax));
  return text.slice(0, read);
}

function partToWire(part: ContainerCallResult): WireCallPart {
  const { container } = part;
  if (part.ok) return { container, value: part.value, code: undefined, message: undefined, stateChanged: undefined };
  const { code, message, stateChanged } = part;
  return { container, value: undefined, code, message: truncateErrorText(message), stateChanged };
}

function partFromWire({ container, value, code, message, stateChanged }: WireCallPart): ContainerCallResult {
  if (value !== undefined) return { container, ok: true, value };
  return {
    container,
    ok: false,
    code: code ?? 'INTERNAL',
    message: message ?? '',
    stateChanged: stateChanged ?? 'maybe',
  };
}
