/**
 * Reading end of a streaming call: an AsyncIterable that grants credit. Ends on last item, error, deadline or lost
 * connection. Never resumed.
 */
import { RemusterError, parseErrorCode, isRemusterError } from '../../base/errors.ts';
import type { Address, ByteStream, Cancel, Clock, Streams } from '../../base/ports.ts';
import type { CallMessageOf } from '../../messages/calls.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import { valueBytesMax } from '../../messages/codec/value.ts';
import { ResultFrameReader, ResultFrameSender, itemCost, resultFrameKinds, creditFrame } from './result-frames.ts';

/** What may wait here for its reader, and one item more; told anew in halves. */
const windowBytes = 262_144;

type Ending = { readonly error: RemusterError | undefined };
type Reading = { resolve(result: IteratorResult<Uint8Array>): void; reject(error: RemusterError): void };

/** Opens at once. `opening.timeoutMs` is how long the whole flow may take. Throws TOO_LARGE for what no opening holds. */
export function readResultStream(
  ports: { readonly streams: Pick<Streams, 'open'>; readonly clock: Clock },
  to: Address,
  opening: CallMessageOf<'openResultStream'>,
  args: Uint8Array,
): AsyncIterableIterator<Uint8Array> {
  return new ResultStreamReader(ports, to, opening, args);
}

class ResultStreamReader implements AsyncIterableIterator<Uint8Array> {
  readonly #stream: ByteStream;
  readonly #sender: ResultFrameSender;
  readonly #late: Cancel;
  readonly #items: Uint8Array[] = [];
  readonly #readings: Reading[] = [];
  /** What the writer may still send, and what was read since it was last told of new room. */
  #room = windowBytes;
  #taken = 0;
  #ending: Ending | undefined;

  constructor(
    { streams, clock }: { readonly streams: Pick<Streams, 'open'>; readonly clock: Clock },
    to: Address,
    opening: CallMessageOf<'openResultStream'>,
    args: Uint8Array,
  ) {
    const frames = new ResultFrameReader(valueBytesMax, (kind, bytes) => this.#frame(kind, bytes));
    this.#stream = streams.open(to, encodeMessage(opening), {
      chunk: (bytes) => this.#chunk(frames, bytes),
      writable: () => this.#sender.pump(),
      ended: (outcome) =>
        this.#end(outcome.ok ? new RemusterError('NETWORK_TIMEOUT', 'the flow broke off') : outcome.error),
    });
    this.#sender = new ResultFrameSender(this.#stream, () => {});
    this.#sender.send(resultFrameKinds.args, args);
    this.#sender.send(resultFrameKinds.credit, creditFrame(windowBytes));
    this.#late = clock.schedule(opening.timeoutMs, () => {
      this.#end(new RemusterError('DEADLINE', `the flow did not end within ${opening.timeoutMs} ms`));
      this.#stream.abort('the deadline has passed');
    });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const item = this.#items.shift();
    if (item !== undefined) {
      this.#took(item);
      return Promise.resolve({ done: false, value: item });
    }
    const ending = this.#ending;
    if (ending === undefined) return new Promise((resolve, reject) => this.#readings.push({ resolve, reject }));
    // An error is told once; whoever reads on after it is at the end.
    this.#ending = { error: undefined };
    return ending.error === undefined
      ? Promise.resolve({ done: true, value: undefined })
      : Promise.reject(ending.error);
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#items.length = 0;
    this.#end(undefined);
    this.#stream.abort('nobody reads on');
    return Promise.resolve({ done: true, value: undefined });
  }

  #chunk(frames: ResultFrameReader, bytes: Uint8Array): void {
    try {
      frames.take(bytes);
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      this.#end(error);
      this.#stream.abort(error.message);
    }
  }

  #frame(kind: number, bytes: Uint8Array): void {
    if (this.#ending !== undefined) return;
    if (kind === resultFrameKinds.item) return this.#item(bytes);
    this.#end(kind === resultFrameKinds.end ? undefined : refusalOf(bytes));
    this.#sender.end();
  }

  #item(bytes: Uint8Array): void {
    if (this.#room <= 0) throw new RemusterError('MALFORMED', 'more items than there was room for');
    this.#room -= itemCost(bytes);
    const reading = this.#readings.shift();
    if (reading === undefined) {
      this.#items.push(bytes);
      return;
    }
    this.#took(bytes);
    reading.resolve({ done: false, value: bytes });
  }

  #took(item: Uint8Array): void {
    this.#taken += itemCost(item);
    if (this.#taken < windowBytes / 2 || this.#ending !== undefined) return;
    this.#room += this.#taken;
    this.#sender.send(resultFrameKinds.credit, creditFrame(this.#taken));
    this.#taken = 0;
  }

  #end(error: RemusterError | undefined): void {
    if (this.#ending !== undefined) return;
    this.#late();
    const [first, ...rest] = this.#readings.splice(0);
    this.#ending = { error: first === undefined ? error : undefined };
    if (first !== undefined && error !== undefined) first.reject(error);
    else first?.resolve({ done: true, value: undefined });
    for (const reading of rest) reading.resolve({ done: true, value: undefined });
  }
}

function refusalOf(bytes: Uint8Array): RemusterError {
  const message = tryDecodeMessage(bytes);
  if (message?.kind !== 'callError') return new RemusterError('MALFORMED', 'the end of a flow cannot be read');
  return new RemusterError(parseErrorCode(message.code), message.message, message.stateChanged);
}
