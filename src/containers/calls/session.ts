/**
 * A caller inside this process: numbers its calls, remembers which of them still wait, and turns values into bytes and
 * back. Its node, the generation of its node and its serial number make its call ids unlike all others, also after a
 * restart.
 */
import { type Done, RemusterError, promised } from '../../base/errors.ts';
import { type CallId, type NodeId, namePattern, parseCallId } from '../../base/ids.ts';
import type { Cancel } from '../../base/ports.ts';
import { decodeValue, encodeValue } from '../../messages/value.ts';
import type { CallResult, CallSession, WantedCall } from '../contract.ts';
import type { CallOptions } from '../module.ts';

export type SessionParts = {
  readonly self: { readonly id: NodeId; readonly generation: number };
  /** For people who look at call ids; the serial number tells sessions of one name apart. */
  readonly name: string;
  readonly serial: number;
  readonly callTimeoutMs: number;
  call(call: WantedCall, done: Done<CallResult>): Cancel;
};

/** A node id, a number of up to 15 digits and this are a name. */
const nameCharactersMax = 14;

export class Session implements CallSession {
  readonly #parts: SessionParts;
  readonly #session: string;
  /** In the order of their numbers, so the first one is the lowest. */
  readonly #waiting = new Set<number>();
  #counter = 0;

  constructor(parts: SessionParts) {
    this.#parts = parts;
    const word = parts.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]/g, '-')
      .slice(0, nameCharactersMax);
    this.#session = `${parts.self.id}.${parts.serial}.${word}`;
  }

  async call(
    call: Pick<WantedCall, 'pool' | 'method' | 'route'> & { readonly args: readonly unknown[] },
    options: CallOptions = {},
  ): Promise<unknown> {
    const { callId, signal, timeoutMs = this.#parts.callTimeoutMs, retryTimeoutMs } = options;
    if (signal?.aborted === true) throw new RemusterError('CANCELLED');
    checkTimeout('timeoutMs', timeoutMs);
    checkTimeout('retryTimeoutMs', retryTimeoutMs);
    const args = encodeValue(call.args);
    const own = callId === undefined ? this.#next() : undefined;
    const numbered = own ?? { id: givenId(callId ?? ''), lowest: 0 };
    const { pool, method, route } = call;
    const wanted = { pool, method, args, route, ...numbered, timeoutMs, retryTimeoutMs };
    try {
      return valueOf(await promised<CallResult>((done) => this.#start(wanted, signal, done)));
    } finally {
      if (own !== undefined) this.#waiting.delete(own.id.counter);
    }
  }

  #start(wanted: WantedCall, signal: AbortSignal | undefined, done: Done<CallResult>): void {
    let isOver = false;
    let cancel: Cancel = () => {};
    const abort = (): void => cancel();
    cancel = this.#parts.call(wanted, (outcome) => {
      isOver = true;
      signal?.removeEventListener('abort', abort);
      done(outcome);
    });
    if (!isOver) signal?.addEventListener('abort', abort, { once: true });
  }

  #next(): { readonly id: CallId; readonly lowest: number } {
    this.#counter += 1;
    const counter = this.#counter;
    this.#waiting.add(counter);
    const [lowest = counter] = this.#waiting;
    return { id: { session: this.#session, generation: this.#parts.self.generation, counter }, lowest };
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

function valueOf(result: CallResult): unknown {
  if ('flow' in result) return decodedItems(result.flow);
  if ('value' in result) return decodeValue(result.value);
  return result.parts.map((part) => (part.ok ? decodeValue(part.value) : undefined));
}

async function* decodedItems(flow: AsyncIterable<Uint8Array>): AsyncGenerator {
  for await (const item of flow) yield decodeValue(item);
}
