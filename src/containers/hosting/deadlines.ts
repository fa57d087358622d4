/**
 * Ends what has a deadline, with one timer for all of it: most is over long before, and a timer for each would cost more
 * than the work itself.
 */
import type { Cancel, Clock } from '../../base/ports.ts';

export type Limited = { readonly deadlineMs: number; expired(): void };

export class Deadlines {
  readonly #clock: Clock;
  readonly #all = new Set<Limited>();
  #wakeAtMs = Infinity;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#all.size;
  }

  add(limited: Limited): void {
    this.#all.add(limited);
    if (limited.deadlineMs < this.#wakeAtMs) this.#arm(limited.deadlineMs);
  }

  /** The timer stays: it costs less to wake for nothing than to look for the next deadline each time. */
  delete(limited: Limited): void {
    this.#all.delete(limited);
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    this.#all.clear();
  }

  #arm(atMs: number): void {
    this.#cancel?.();
    this.#wakeAtMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#wake());
  }

  #wake(): void {
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    const nowMs = this.#clock.nowMs();
    for (const limited of [...this.#all]) {
      if (limited.deadlineMs > nowMs || !this.#all.delete(limited)) continue;
      limited.expired();
    }
    let nextMs = Infinity;
    for (const { deadlineMs } of this.#all) nextMs = Math.min(nextMs, deadlineMs);
    if (nextMs < this.#wakeAtMs) this.#arm(nextMs);
  }
}
