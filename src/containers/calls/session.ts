/**
 * A caller inside this process: numbers its calls, remembers which of them still wait, and turns values into bytes and
 * back. Its node, the generation of its node and its serial number make its call ids unlike all others, also after a
 * restart.
 */
import { type Done, type Outcome, RemusterError } from '../../base/errors.ts';
import { type CallId, type NodeId, namePattern, parseCallId } from '../../base/ids.ts';
import type { Cancel } from '../../base/ports.ts';
import { decodeValue, encodeValue } from '../../messages/value.ts';
import type { CallResult, CallSession, WantedCall } from '../contract.ts';
import type { CallOptions } from '../module.ts';
import { type Hanging, hangOn, letGo } from './abort-hub.ts';

export type SessionParts = {
  readonly self: { readonly id: NodeId; readonly generation: number };
  /** For people who look at call ids; the serial number tells sessions of one name apart. */
  readonly name: string;
  readonly serial: number;
  readonly callTimeoutMs: number;
  call(call: WantedCall, done: Done<CallResult>): Cancel;
};

type SessionCall = Pick<WantedCall, 'pool' | 'method' | 'route'> & { readonly args: readonly unknown[] };

/** A node id, a number of up to 15 digits and this are a name. */
const nameCharactersMax = 14;

const noArgs = encodeValue([]);
const nothing: Cancel = () => {};

/** One that still waits, between its neighbours in the order of the numbers. */
class OpenCall implements Hanging {
  readonly id: CallId;
  before: OpenCall = this;
  after: OpenCall = this;
  hangsBefore: Hanging | undefined;
  hangsAfter: Hanging | undefined;
  cancel: Cancel = nothing;
  isOver = false;

  constructor(id: CallId) {
    this.id = id;
  }
}

export class Session implements CallSession {
  readonly #parts: SessionParts;
  readonly #session: string;
  /** Between the last and the first. */
  readonly #ends: OpenCall;
  #counter = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    const word = parts.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]/g, '-')
      .slice(0, nameCharactersMax);
    this.#session = `${parts.self.id}.${parts.serial}.${word}`;
    this.#ends = new OpenCall({ session: this.#session, generation: 0, counter: 0 });
  }

  call(call: SessionCall, options: CallOptions = {}): Promise<unknown> {
    // What is thrown in here is a rejection as well.
    return new Promise((resolve, reject) => this.#start(call, options, resolve, reject));
  }

  #start(
    { pool, method, route, args }: SessionCall,
    { callId, signal, timeoutMs = this.#parts.callTimeoutMs, retryTimeoutMs }: CallOptions,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ): void {
    if (signal?.aborted === true) throw new RemusterError('CANCELLED');
    checkTimeout('timeoutMs', timeoutMs);
    checkTimeout('retryTimeoutMs', retryTimeoutMs);
    const bytes = args.length === 0 ? noArgs : encodeValue(args);
    const open = callId === undefined ? this.#next() : new OpenCall(givenId(callId));
    const lowest = callId === undefined ? this.#ends.after.id.counter : 0;
    const wanted = { pool, method, args: bytes, route, id: open.id, lowest, timeoutMs, retryTimeoutMs };
    try {
      open.cancel = this.#parts.call(wanted, (outcome) => {
        this.#ended(open);
        settle(outcome, resolve, reject);
      });
    } catch (error) {
      this.#ended(open);
      throw error;
    }
    if (signal !== undefined && !open.isOver) hangOn(signal, open);
  }

  #next(): OpenCall {
    const open = new OpenCall({
      session: this.#session,
      generation: this.#parts.self.generation,
      counter: ++this.#counter,
    });
    const last = this.#ends.before;
    open.before = last;
    open.after = this.#ends;
    last.after = open;
    this.#ends.before = open;
    return open;
  }

  #ended(open: OpenCall): void {
    if (open.isOver) return;
    open.isOver = true;
    letGo(open);
    open.before.after = open.after;
    open.after.before = open.before;
  }
}

/** A call id as it is printed, or any name: then it is a session of one call. */
export function givenId(text: string): CallId {
  if (namePattern.test(text)) return { session: text, generation: 0, counter: 0 };
  return parseCallId(text);
}

/** What a timer can count. */
const timeoutMsMax = 2 ** 31 - 1;

function checkTimeout(name: string, timeoutMs: number | undefined): void {
  if (timeoutMs === undefined || (timeoutMs > 0 && timeoutMs <= timeoutMsMax)) return;
  throw new RemusterError('BAD_ARGUMENT', `${name} is a number of milliseconds above 0 and up to ${timeoutMsMax}`);
}

function settle(
  outcome: Outcome<CallResult>,
  resolve: (value: unknown) => void,
  reject: (error: unknown) => void,
): void {
  if (!outcome.ok) return reject(outcome.error);
  try {
    resolve(valueOf(outcome.value));
  } catch (error) {
    reject(error);
  }
}

function valueOf(result: CallResult): unknown {
  if ('flow' in result) return decodedItems(result.flow);
  if ('value' in result) return decodeValue(result.value);
  return result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
}

async function* decodedItems(flow: AsyncIterable<Uint8Array>): AsyncGenerator {
  for await (const item of flow) yield decodeValue(item);
}
