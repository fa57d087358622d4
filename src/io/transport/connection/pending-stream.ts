/**
 * A byte stream whose connection is still being dialed: accepts nothing, remembers `end` and `abort`, then forwards
 * everything.
 */
import { failure, type Outcome } from '../../../base/errors.ts';
import type { ByteStream, ByteStreamEvents } from '../../../base/ports.ts';

export class PendingStream implements ByteStream {
  readonly events: ByteStreamEvents;
  #inner: ByteStream | undefined;
  #refusedWrite = false;
  #endAsked = false;
  #over = false;

  constructor(events: ByteStreamEvents) {
    this.events = events;
  }

  get over(): boolean {
    return this.#over;
  }

  write(chunk: Uint8Array): boolean {
    if (this.#inner !== undefined) return this.#inner.write(chunk);
    if (!this.#endAsked) this.#refusedWrite = true;
    return false;
  }

  end(): void {
    this.#endAsked = true;
    this.#inner?.end();
  }

  abort(reason: string): void {
    if (this.#inner === undefined) this.fail(failure('CANCELLED', reason));
    else this.#inner.abort(reason);
  }

  attach(inner: ByteStream): void {
    this.#inner = inner;
    if (this.#endAsked) inner.end();
    else if (this.#refusedWrite) this.events.writable();
  }

  /** There will be no connection. */
  fail(outcome: Outcome<never>): void {
    if (this.#over || this.#inner !== undefined) return;
    this.#over = true;
    queueMicrotask(() => this.events.ended(outcome));
  }
}
