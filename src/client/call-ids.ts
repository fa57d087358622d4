/**
 * Allocates the call ids of one session and tracks the lowest pending one: a container may drop all dedup slots of the
 * session below it.
 */
import type { CallId } from '../base/ids.ts';

export class CallIdAllocator {
  readonly #session: string;
  readonly #open = new Set<number>();
  #next = 1;
  #lowestPending = 1;

  constructor(session: string) {
    this.#session = session;
  }

  /** The number of the oldest pending call; if none is pending, the number of the next call. */
  get lowestPending(): number {
    return this.#lowestPending;
  }

  get openCount(): number {
    return this.#open.size;
  }

  allocate(): CallId {
    const counter = this.#next;
    this.#next += 1;
    this.#open.add(counter);
    return { session: this.#session, generation: 1, counter };
  }

  release({ session, counter }: CallId): void {
    if (session !== this.#session) return;
    this.#open.delete(counter);
    while (this.#lowestPending < this.#next && !this.#open.has(this.#lowestPending)) this.#lowestPending += 1;
  }
}
