/**
 * The reading end of a result stream: an AsyncIterable that grants credit as items are consumed. Ends with the last
 * item, an error, the deadline or a lost connection; it is never resumed.
 */
import { RemusterError, parseErrorCode, isRemusterError } from '../../base/errors.ts';
import type { Address, ByteStream, Cancel, Clock, Streams } from '../../base/ports.ts';
import type { CallMessageOf } from '../../messages/calls.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import { valueBytesMax } from '../../messages/codec/value.ts';
import { ResultFrameReader, ResultFrameSender, itemCost, resultFrameKinds, creditFrame } from './result-frames.ts';

/** Credit: the bytes that may wait for the consumer, plus one item. Renewed when half of it is consumed. */
const windowBytes = 262_144;

type Ending = { readonly error: RemusterError | undefined };
type PendingRead = { resolve(result: IteratorResult<Uint8Array>): void; reject(error: RemusterError): void };

/**
 * Opens the stream at once. `opening.timeoutMs` limits the whole stream. Throws TOO_LARGE if the opening is too large.
 */
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
  readonly #cancelDeadline: Cancel;
  readonly #items: Uint8Array[] = [];
  readonly #pendingReads: PendingRead[] = [];
  /** Credit that the writer has left, and bytes consumed since the last credit frame. */
  #credit = windowBytes;
  #consumed = 0;
  #ending: Ending | undefined;

  constructor(
    { streams, clock }: { readonly streams: Pick<Streams, 'open'>; readonly clock: Clock },
    to: Address,
    opening: CallMessageOf<'openResultStream'>,
    args: Uint8Array,
  ) {
    const frames = new ResultFrameReader(valueBytesMax, (kind, bytes) => this.#onFrame(kind, bytes));
    this.#stream = streams.open(to, encodeMessage(opening), {
      chunk: (bytes) => this.#onChunk(frames, bytes),
      writable: () => this.#sender.flush(),
      ended: (outcome) =>
        this.#end(
          outcome.ok
            ? new RemusterError('NETWORK_TIMEOUT', 'the connection of the result stream was lost')
            : outcome.error,
        ),
    });
    this.#sender = new ResultFrameSender(this.#stream, () => {});
    this.#sender.send(resultFrameKinds.args, args);
    this.#sender.send(resultFrameKinds.credit, creditFrame(windowBytes));
    this.#cancelDeadline = clock.schedule(opening.timeoutMs, () => {
      this.#end(new RemusterError('DEADLINE', `the result stream did not end within ${opening.timeoutMs} ms`));
      this.#stream.abort('the deadline has passed');
    });
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    return this;
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const item = this.#items.shift();
    if (item !== undefined) {
      this.#onConsumed(item);
      return Promise.resolve({ done: false, value: item });
    }
    const ending = this.#ending;
    if (ending === undefined) return new Promise((resolve, reject) => this.#pendingReads.push({ resolve, reject }));
    // The error is reported once; the next read is at the end.
    this.#ending = { error: undefined };
    return ending.error === undefined
      ? Promise.resolve({ done: true, value: undefined })
      : Promise.reject(ending.error);
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#items.length = 0;
    this.#end(undefined);
    this.#stream.abort('the reader has stopped');
    return Promise.resolve({ done: true, value: undefined });
  }

  #onChunk(frames: ResultFrameReader, bytes: Uint8Array): void {
    try {
      frames.take(bytes);
    } catch (error) {
      if (!isRemusterError(error)) throw error;
      this.#end(error);
      this.#stream.abort(error.message);
    }
  }

  #onFrame(kind: number, bytes: Uint8Array): void {
    if (this.#ending !== undefined) return;
    if (kind === resultFrameKinds.item) return this.#onItem(bytes);
    this.#end(kind === resultFrameKinds.end ? undefined : refusalOf(bytes));
    this.#sender.end();
  }

  #onItem(bytes: Uint8Array): void {
    if (this.#credit <= 0) throw new RemusterError('MALFORMED', 'the writer has sent an item without credit');
    this.#credit -= itemCost(bytes);
    const read = this.#pendingReads.shift();
    if (read === undefined) {
      this.#items.push(bytes);
      return;
    }
    this.#onConsumed(bytes);
    read.resolve({ done: false, value: bytes });
  }

  #onConsumed(item: Uint8Array): void {
    this.#consumed += itemCost(item);
    if (this.#consumed < windowBytes / 2 || this.#ending !== undefined) return;
    this.#credit += this.#consumed;
    this.#sender.send(resultFrameKinds.credit, creditFrame(this.#consumed));
    this.#consumed = 0;
  }

  #end(error: RemusterError | undefined): void {
    if (this.#ending !== undefined) return;
    this.#cancelDeadline();
    const [first, ...rest] = this.#pendingReads.splice(0);
    this.#ending = { error: first === undefined ? error : undefined };
    if (first !== undefined && error !== undefined) first.reject(error);
    else first?.resolve({ done: true, value: undefined });
    for (const read of rest) read.resolve({ done: true, value: undefined });
  }
}

function refusalOf(bytes: Uint8Array): RemusterError {
  const message = tryDecodeMessage(bytes);
  if (message?.kind !== 'callError')
    return new RemusterError('MALFORMED', 'the last frame of a result stream cannot be decoded');
  return new RemusterError(parseErrorCode(message.code), message.message, message.stateChanged);
}
