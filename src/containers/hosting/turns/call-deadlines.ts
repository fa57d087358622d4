/**
 * Ends what has a deadline in a container, with one timer for all: most is over long before, and a timer for each would
 * cost more than the work.
 */
import type { Cancel, Clock } from '../../../base/ports.ts';

export type DeadlineEntry = {
  readonly deadlineMs: number;
  /** Belongs to the list: -1 when it is not there. */
  place: number;
  onExpired(): void;
};

export class TurnDeadlines {
  readonly #clock: Clock;
  /** In no order. */
  readonly #all: DeadlineEntry[] = [];
  #wakeAtMs = Infinity;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#all.length;
  }

  add(limited: DeadlineEntry): void {
    limited.place = this.#all.length;
    this.#all.push(limited);
    if (limited.deadlineMs < this.#wakeAtMs) this.#arm(limited.deadlineMs);
  }

  /** The timer stays: it costs less to wake for nothing than to look for the next deadline each time. */
  delete(limited: DeadlineEntry): void {
    const { place } = limited;
    if (place < 0) return;
    limited.place = -1;
    const last = this.#all.pop() as DeadlineEntry;
    if (last === limited) return;
    this.#all[place] = last;
    last.place = place;
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    for (const limited of this.#all) limited.place = -1;
    this.#all.length = 0;
  }

  #arm(atMs: number): void {
    this.#cancel?.();
    this.#wakeAtMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#wake());
  }

  /** Whose end comes first ends first. */
  #wake(): void {
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    const nowMs = this.#clock.nowMs();
    const over = this.#all.filter(({ deadlineMs }) => deadlineMs <= nowMs);
    for (const limited of over.toSorted((a, b) => a.deadlineMs - b.deadlineMs)) {
      if (limited.place < 0) continue;
      this.delete(limited);
      limited.onExpired();
    }
    let nextMs = Infinity;
    for (const { deadlineMs } of this.#all) nextMs = Math.min(nextMs, deadlineMs);
    if (nextMs < this.#wakeAtMs) this.#arm(nextMs);
  }
}
