/**
 * How a group of store calls is executed. Without a log it is sent to the store thread as it is; the backend with a
 * log is store-log-backend.ts.
 */
import { assert } from '../../base/assert.ts';
import { type StoreBatch, packBatch, type StoreReply, type StoreCall, type StoreRead } from './store-protocol.ts';

/** Receives one reply for each call, in order. */
export type OnStoreReplies = (replies: readonly StoreReply[]) => void;

export type StoreBackend = {
  /** Adds a copy of the batch to the next group. Returns the size of the packed batch. */
  write(batch: StoreBatch): number;
  read(call: StoreRead): void;
  /** Executes the calls added since the last `perform` as one group. One group at a time; calls are added meanwhile. */
  perform(done: OnStoreReplies): void;
  /** The thread has replied to its oldest request. */
  onReplies(replies: readonly StoreReply[]): void;
  /** Called before the thread is told to close. */
  beforeClose?(): void;
  /** The thread has closed the database, which has all rows. */
  onClosed?(): void;
  /** The thread has exited: no more replies come. */
  onThreadLost?(): void;
};

export class DirectBackend implements StoreBackend {
  readonly #send: (calls: readonly StoreCall[], buffers: ArrayBuffer[]) => void;
  #calls: StoreCall[] = [];
  /** Buffers of the packed batches, transferred to the thread. */
  #buffers: ArrayBuffer[] = [];
  #done: OnStoreReplies | undefined;

  constructor(send: (calls: readonly StoreCall[], buffers: ArrayBuffer[]) => void) {
    this.#send = send;
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
    this.#send(calls, buffers);
  }

  onReplies(replies: readonly StoreReply[]): void {
    const done = this.#done;
    assert(done !== undefined, 'the store thread replies only to a group');
    this.#done = undefined;
    done(replies);
  }
}
