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
import { onAbort } from './abort-hub.ts';

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

export class Session implements CallSession {
  readonly #parts: SessionParts;
  readonly #session: string;
  readonly #waiting = new Set<number>();
  #counter = 0;
  /** Every number below is over. */
  #lowest = 1;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    const word = parts.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]/g, '-')
      .slice(0, nameCharactersMax);
    this.#session = `${parts.self.id}.${parts.serial}.${word}`;
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
    const id = callId === undefined ? this.#next() : givenId(callId);
    const lowest = callId === undefined ? this.#lowest : 0;
    let isOver = false;
    let release: Cancel | undefined;
    const cancel = this.#parts.call(
      { pool, method, args: bytes, route, id, lowest, timeoutMs, retryTimeoutMs },
      (outcome) => {
        isOver = true;
        release?.();
        if (callId === undefined) this.#ended(id.counter);
        settle(outcome, resolve, reject);
      },
    );
    if (signal !== undefined && !isOver) release = onAbort(signal, cancel);
  }

  #next(): CallId {
    this.#counter += 1;
    this.#waiting.add(this.#counter);
    return { session: this.#session, generation: this.#parts.self.generation, counter: this.#counter };
  }

  #ended(counter: number): void {
    this.#waiting.delete(counter);
    while (this.#lowest <= this.#counter && !this.#waiting.has(this.#lowest)) this.#lowest += 1;
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
