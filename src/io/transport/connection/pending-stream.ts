/**
 * A byte stream whose connection is still being dialed: refuses writes and remembers `end`; once attached to the stream
 * of the connection it forwards every call.
 */
import { failure, type Outcome } from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../base/ports.ts';

export class PendingStream implements ByteStream {
  readonly events: ByteStreamEvents;
  #inner: ByteStream | undefined;
  #refusedWrite = false;
  #endRequested = false;
  #hasFailed = false;

  constructor(events: ByteStreamEvents) {
    this.events = events;
  }

  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  write(chunk: Uint8Array): boolean {
    if (this.#inner !== undefined) return this.#inner.write(chunk);
    if (!this.#endRequested) this.#refusedWrite = true;
    return false;
  }

  end(): void {
    this.#endRequested = true;
    this.#inner?.end();
  }

  abort(reason: string): void {
    if (this.#inner === undefined) this.fail(failure('CANCELLED', reason));
    else this.#inner.abort(reason);
  }

  attach(inner: ByteStream): void {
    this.#inner = inner;
    if (this.#endRequested) inner.end();
    else if (this.#refusedWrite) this.events.writable();
  }

  /** Dialing has failed, or the user aborted before the connection was there. */
  fail(outcome: Outcome<never>): void {
    if (this.#hasFailed || this.#inner !== undefined) return;
    this.#hasFailed = true;
    queueMicrotask(() => this.events.ended(outcome));
  }
}
