/**
 * A caller in this process: numbers its calls, tracks the lowest outstanding one, encodes arguments and decodes
 * results. Its call ids are unique across restarts.
 */
import { type Outcome, RemusterError, isRemusterError, withStateChanged } from '../../base/errors.ts';
import { type CallId, type NodeId, namePattern, parseCallId } from '../../base/ids.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import type { CallResult, CallSession, RoutedCall } from '../contract.ts';
import type { CallOptions, MethodSpec, Route } from '../module.ts';
import { aggregateFailure } from './aggregation.ts';
import { type AbortListener, addAbortListener, removeAbortListener } from './abort-listeners.ts';
import type { Completion, CancellableCall } from './container-call.ts';

export type CallerSessionParts = {
  readonly self: { readonly id: NodeId; readonly generation: number };
  /** Makes call ids readable; the serial number distinguishes sessions of one name. */
  readonly name: string;
  readonly serial: number;
  readonly callTimeoutMs: number;
  /** `completion` may be called before this returns. */
  start(call: RoutedCall, completion: Completion<CallResult>): CancellableCall;
};

type SessionCall = Pick<RoutedCall, 'pool' | 'method' | 'route'> & {
  readonly args: readonly unknown[];
  /** Absent for a caller without the module, such as HTTP: it gets the list of results. */
  readonly aggregate?: MethodSpec['aggregate'];
};

/** A session name is a node id, a number of up to 15 digits and this many characters. */
const nameCharactersMax = 14;

const noArgs = encodeValue([]);

/** The two ends of a promise. */
type Resolve = (value: unknown) => void;
type Reject = (error: unknown) => void;

/**
 * A call without a result yet, linked in the order of call numbers. It is also the routed call and its completion:
 * there are many of them, and one object costs less than three.
 */
class OutstandingCall implements AbortListener, RoutedCall, Completion<CallResult> {
  readonly pool: string;
  readonly method: string;
  readonly args: Uint8Array;
  readonly route: Route;
  readonly id: CallId;
  lowestPending = 0;
  timeoutMs = 0;
  retryTimeoutMs: number | undefined;
  before: OutstandingCall = this;
  after: OutstandingCall = this;
  previous: AbortListener | undefined;
  next: AbortListener | undefined;
  running: CancellableCall | undefined;
  hasEnded = false;
  readonly #aggregate: MethodSpec['aggregate'];
  readonly #resolve: Resolve;
  readonly #reject: Reject;

  constructor(call: Omit<SessionCall, 'args'>, args: Uint8Array, id: CallId, resolve: Resolve, reject: Reject) {
    this.pool = call.pool;
    this.method = call.method;
    this.args = args;
    this.route = call.route;
    this.id = id;
    this.#aggregate = call.aggregate;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  cancel(): void {
    this.running?.cancel();
  }

  complete(outcome: Outcome<CallResult>): void {
    this.remove();
    if (!outcome.ok) return this.#reject(outcome.error);
    try {
      this.#resolve(valueOf(outcome.value, this.#aggregate));
    } catch (error) {
      this.#reject(error);
    }
  }

  /** Unlinks the call. */
  remove(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    removeAbortListener(this);
    this.before.after = this.after;
    this.after.before = this.before;
  }
}

const noCall = { pool: '', method: '', route: { local: true } } as const;
const noop = (): void => {};

export class CallerSession implements CallSession {
  readonly #parts: CallerSessionParts;
  readonly #session: string;
  /** Between the last and the first outstanding call. */
  readonly #sentinel: OutstandingCall;
  #counter = 0;

  constructor(parts: CallerSessionParts) {
    this.#parts = parts;
    const label = parts.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]/g, '-')
      .slice(0, nameCharactersMax);
    this.#session = `${parts.self.id}.${parts.serial}.${label}`;
    this.#sentinel = new OutstandingCall(noCall, noArgs, this.#id(0), noop, noop);
  }

  call(call: SessionCall, options: CallOptions = {}): Promise<unknown> {
    // An exception in `#start` rejects the promise.
    return new Promise((resolve, reject) => this.#start(call, options, resolve, reject));
  }

  #start(
    call: SessionCall,
    { callId, signal, timeoutMs = this.#parts.callTimeoutMs, retryTimeoutMs }: CallOptions,
    resolve: Resolve,
    reject: Reject,
  ): void {
    if (signal?.aborted === true) throw new RemusterError('CANCELLED', undefined, 'no');
    checkTimeout('timeoutMs', timeoutMs, 1);
    checkTimeout('retryTimeoutMs', retryTimeoutMs, 0);
    const { args } = call;
    const bytes = args.length === 0 ? noArgs : encodeArgs(args);
    const id = callId === undefined ? this.#id(++this.#counter) : callIdOf(callId);
    const outstanding = new OutstandingCall(call, bytes, id, resolve, reject);
    outstanding.timeoutMs = timeoutMs;
    outstanding.retryTimeoutMs = retryTimeoutMs;
    if (callId === undefined) this.#link(outstanding);
    try {
      outstanding.running = this.#parts.start(outstanding, outstanding);
    } catch (error) {
      outstanding.remove();
      throw error;
    }
    if (signal !== undefined && !outstanding.hasEnded) addAbortListener(signal, outstanding);
  }

  #id(counter: number): CallId {
    return { session: this.#session, generation: this.#parts.self.generation, counter };
  }

  #link(outstanding: OutstandingCall): void {
    const last = this.#sentinel.before;
    outstanding.before = last;
    outstanding.after = this.#sentinel;
    last.after = outstanding;
    this.#sentinel.before = outstanding;
    outstanding.lowestPending = this.#sentinel.after.id.counter;
  }
}

/** Arguments that cannot be encoded are not sent, so no state has changed. */
function encodeArgs(args: readonly unknown[]): Uint8Array {
  try {
    return encodeValue(args);
  } catch (error) {
    throw isRemusterError(error) ? withStateChanged(error, 'no') : error;
  }
}

/** Parses a printed call id, or takes a name as a session with a single call. */
export function callIdOf(text: string): CallId {
  if (namePattern.test(text)) return { session: text, generation: 0, counter: 0 };
  return parseCallId(text);
}

/** The longest delay of a timer. */
const timeoutMsMax = 2 ** 31 - 1;

function checkTimeout(name: string, timeoutMs: number | undefined, min: 0 | 1): void {
  const isValid =
    timeoutMs === undefined || (timeoutMs <= timeoutMsMax && (min === 0 ? timeoutMs >= 0 : timeoutMs > 0));
  if (isValid) return;
  throw new RemusterError(
    'BAD_ARGUMENT',
    `${name} is ${timeoutMs}: give a number of milliseconds ${min === 0 ? 'from 0' : 'above 0'} to ${timeoutMsMax}`,
  );
}

function valueOf(result: CallResult, aggregate: MethodSpec['aggregate']): unknown {
  if ('stream' in result) return decodedItems(result.stream);
  if ('value' in result) return decodeValue(result.value);
  const values = result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
  if (aggregate === undefined) return values;
  try {
    return aggregate(values);
  } catch (error) {
    throw aggregateFailure(error);
  }
}

async function* decodedItems(stream: AsyncIterable<Uint8Array>): AsyncGenerator {
  for await (const item of stream) yield decodeValue(item);
}
