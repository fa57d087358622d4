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
  throw new RemusterError('BAD_ARGUMENT', `the route of a call says ${mode} and not which`);
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

/** To the owner of one container. `version`: of the sender's entry of the address table. */
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

/** `timeoutMs` is what is left of the deadline that travelled with it. */
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
  if ('flow' in result) return { ...nothing, kind: 'routeCallReply', stream: true };
  if ('value' in result) return { ...nothing, kind: 'routeCallReply', value: result.value };
  return { ...nothing, kind: 'routeCallReply', parts: result.parts.map(partToWire) };
}

/** The third is what a client that is told of a flow does next: it opens one. */
export function callResultOfReply(
  message: CallMessageOf<'routeCallReply'>,
): Outcome<Exclude<CallResult, { flow: unknown }> | { readonly flow: true }> {
  const { value, parts, stream: flow, code, message: words, stateChanged = 'maybe' } = message;
  if (code !== undefined) return failure(parseErrorCode(code), words, stateChanged);
  if (flow === true) return success({ flow });
  if (value !== undefined) return success({ value });
  if (parts !== undefined) return success({ parts: parts.map(partFromWire) });
  return failure('MALFORMED', 'the answer to a call says nothing');
}

/** A message that breaks a bound is an outcome, and not thrown. */
export function encodeCallMessage(message: Parameters<typeof encodeMessage>[0]): Outcome<Uint8Array> {
  try {
    return success(encodeMessage(message));
  } catch (error) {
    if (isRemusterError(error)) return { ok: false, error };
    throw error;
  }
}

/** The sentence of an error as a message may carry it. */
export function truncateErrorText(words: string): string {
  const wellFormed = words.toWellFormed();
  // Three bytes at most for each unit of UTF-16.
  return wellFormed.length * 3 <= errorTextBytesMax ? wellFormed : cut(wellFormed);
}

const encoder = new TextEncoder();

function cut(words: string): string {
  const { read } = encoder.encodeInto(words, new Uint8Array(errorTextBytesMax));
  return words.slice(0, read);
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
