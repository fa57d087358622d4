/**
 * How a group of calls is executed: handed to the store thread as it is. The variant with a log is
 * store-log-backend.ts.
 */
import { assert } from '../../base/assert.ts';
import { type StoreBatch, packBatch, type StoreReply, type StoreCall, type StoreRead } from './store-protocol.ts';

/** One for each call, in order. */
export type OnStoreReplies = (answers: readonly StoreReply[]) => void;

export type StoreBackend = {
  /** It is performed with the next ones, and nothing of it is shared. The result is how many bytes it takes. */
  write(batch: StoreBatch): number;
  read(call: StoreRead): void;
  /** What was taken since the last time, in order. One at a time, but calls are taken meanwhile. */
  perform(done: OnStoreReplies): void;
  /** The thread has answered what it was asked first. */
  replied(answers: readonly StoreReply[]): void;
  /** Before the thread is told to close. */
  closing?(): void;
  /** The thread has closed the database, which has everything. */
  closed?(): void;
  /** The thread is gone: nothing is answered any more. */
  threadLost?(): void;
};

export class DirectBackend implements StoreBackend {
  readonly #ask: (calls: readonly StoreCall[], buffers: ArrayBuffer[]) => void;
  #calls: StoreCall[] = [];
  /** What is handed over instead of copied. */
  #buffers: ArrayBuffer[] = [];
  #done: OnStoreReplies | undefined;

  constructor(ask: (calls: readonly StoreCall[], buffers: ArrayBuffer[]) => void) {
    this.#ask = ask;
  }

  write(batch: StoreBatch): number {
    const packed = packBatch(batch);
    this.#calls.push({ kind: 'write', packed });
    this.#buffers.push(packed.buffer);
    return packed.length;
  }

  read(call: StoreRead): void {
    this.#calls.push(call);
  }

  perform(done: OnStoreReplies): void {
    const [calls, buffers] = [this.#calls, this.#buffers];
    [this.#calls, this.#buffers] = [[], []];
    this.#done = done;
    this.#ask(calls, buffers);
  }

  replied(answers: readonly StoreReply[]): void {
    const done = this.#done;
    assert(done !== undefined, 'the store thread answers what it was asked');
    this.#done = undefined;
    done(answers);
  }
}
