/**
 * A caller in this process: numbers its calls, tracks the lowest outstanding one, encodes and decodes values. Its call
 * ids are unique across restarts.
 */
import { type Outcome, RemusterError, isRemusterError, withStateChanged } from '../../base/errors.ts';
import { type CallId, type NodeId, namePattern, parseCallId } from '../../base/ids.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import type { CallResult, CallSession, RoutedCall } from '../contract.ts';
import type { CallOptions, Route } from '../module.ts';
import { type AbortListener, addAbortListener, removeAbortListener } from './abort-listeners.ts';
import type { Completion, CancellableCall } from './container-call.ts';

export type CallerSessionParts = {
  readonly self: { readonly id: NodeId; readonly generation: number };
  /** For people who look at call ids; the serial number tells sessions of one name apart. */
  readonly name: string;
  readonly serial: number;
  readonly callTimeoutMs: number;
  /** The hearer may hear of the end before this returns. */
  begin(call: RoutedCall, hearer: Completion<CallResult>): CancellableCall;
};

type SessionCall = Pick<RoutedCall, 'pool' | 'method' | 'route'> & { readonly args: readonly unknown[] };

/** A node id, a number of up to 15 digits and this are a name. */
const nameCharactersMax = 14;

const noArgs = encodeValue([]);

/** The two ends of a promise. */
type Resolve = (value: unknown) => void;
type Reject = (error: unknown) => void;

/**
 * One that still waits, between its neighbours in the order of the numbers. It is also what is wanted and who hears of
 * the end: there are many of these, and one object costs less than three.
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
  isOver = false;
  readonly #resolve: Resolve;
  readonly #reject: Reject;

  constructor(call: Omit<SessionCall, 'args'>, args: Uint8Array, id: CallId, resolve: Resolve, reject: Reject) {
    this.pool = call.pool;
    this.method = call.method;
    this.args = args;
    this.route = call.route;
    this.id = id;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  cancel(): void {
    this.running?.cancel();
  }

  complete(outcome: Outcome<CallResult>): void {
    this.leave();
    if (!outcome.ok) return this.#reject(outcome.error);
    try {
      this.#resolve(valueOf(outcome.value));
    } catch (error) {
      this.#reject(error);
    }
  }

  /** It waits no longer. */
  leave(): void {
    if (this.isOver) return;
    this.isOver = true;
    removeAbortListener(this);
    this.before.after = this.after;
    this.after.before = this.before;
  }
}

const nowhere = { pool: '', method: '', route: { local: true } } as const;
const nobody = (): void => {};

export class CallerSession implements CallSession {
  readonly #parts: CallerSessionParts;
  readonly #session: string;
  /** Between the last and the first. */
  readonly #ends: OutstandingCall;
  #counter = 0;

  constructor(parts: CallerSessionParts) {
    this.#parts = parts;
    const word = parts.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]/g, '-')
      .slice(0, nameCharactersMax);
    this.#session = `${parts.self.id}.${parts.serial}.${word}`;
    this.#ends = new OutstandingCall(nowhere, noArgs, this.#id(0), nobody, nobody);
  }

  call(call: SessionCall, options: CallOptions = {}): Promise<unknown> {
    // What is thrown in here is a rejection as well.
    return new Promise((resolve, reject) => this.#start(call, options, resolve, reject));
  }

  #start(
    call: SessionCall,
    { callId, signal, timeoutMs = this.#parts.callTimeoutMs, retryTimeoutMs }: CallOptions,
    resolve: Resolve,
    reject: Reject,
  ): void {
    if (signal?.aborted === true) throw new RemusterError('CANCELLED', undefined, 'no');
    checkTimeout('timeoutMs', timeoutMs);
    checkTimeout('retryTimeoutMs', retryTimeoutMs);
    const { args } = call;
    const bytes = args.length === 0 ? noArgs : encodeArgs(args);
    const id = callId === undefined ? this.#id(++this.#counter) : callIdOf(callId);
    const open = new OutstandingCall(call, bytes, id, resolve, reject);
    open.timeoutMs = timeoutMs;
    open.retryTimeoutMs = retryTimeoutMs;
    if (callId === undefined) this.#link(open);
    try {
      open.running = this.#parts.begin(open, open);
    } catch (error) {
      open.leave();
      throw error;
    }
    if (signal !== undefined && !open.isOver) addAbortListener(signal, open);
  }

  #id(counter: number): CallId {
    return { session: this.#session, generation: this.#parts.self.generation, counter };
  }

  #link(open: OutstandingCall): void {
    const last = this.#ends.before;
    open.before = last;
    open.after = this.#ends;
    last.after = open;
    this.#ends.before = open;
    open.lowestPending = this.#ends.after.id.counter;
  }
}

/** What cannot be encoded is not sent. */
function encodeArgs(args: readonly unknown[]): Uint8Array {
  try {
    return encodeValue(args);
  } catch (error) {
    throw isRemusterError(error) ? withStateChanged(error, 'no') : error;
  }
}

/** A call id as it is printed, or any name: then it is a session of one call. */
export function callIdOf(text: string): CallId {
  if (namePattern.test(text)) return { session: text, generation: 0, counter: 0 };
  return parseCallId(text);
}

/** What a timer can count. */
const timeoutMsMax = 2 ** 31 - 1;

function checkTimeout(name: string, timeoutMs: number | undefined): void {
  if (timeoutMs === undefined || (timeoutMs > 0 && timeoutMs <= timeoutMsMax)) return;
  throw new RemusterError('BAD_ARGUMENT', `${name} is a number of milliseconds above 0 and up to ${timeoutMsMax}`);
}

function valueOf(result: CallResult): unknown {
  if ('flow' in result) return decodedItems(result.flow);
  if ('value' in result) return decodeValue(result.value);
  return result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
}

async function* decodedItems(flow: AsyncIterable<Uint8Array>): AsyncGenerator {
  for await (const item of flow) yield decodeValue(item);
}
