/**
 * The deadlines of the calls and turns of one container, with one timer for all: almost every call ends long before its
 * deadline, and a timer for each would cost more than the call.
 */
import type { Cancel, Clock } from '../../../base/ports.ts';

export type DeadlineEntry = {
  readonly deadlineMs: number;
  /** Written by the list only; -1 when not in it. */
  listIndex: number;
  onExpired(): void;
};

export class TurnDeadlines {
  readonly #clock: Clock;
  /** Unordered. */
  readonly #all: DeadlineEntry[] = [];
  #wakeAtMs = Infinity;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#all.length;
  }

  add(entry: DeadlineEntry): void {
    entry.listIndex = this.#all.length;
    this.#all.push(entry);
    if (entry.deadlineMs < this.#wakeAtMs) this.#arm(entry.deadlineMs);
  }

  /** The timer stays: one useless wake-up costs less than a search for the next deadline at each removal. */
  delete(entry: DeadlineEntry): void {
    const { listIndex } = entry;
    if (listIndex < 0) return;
    entry.listIndex = -1;
    const last = this.#all.pop() as DeadlineEntry;
    if (last === entry) return;
    this.#all[listIndex] = last;
    last.listIndex = listIndex;
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    for (const entry of this.#all) entry.listIndex = -1;
    this.#all.length = 0;
  }

  #arm(atMs: number): void {
    this.#cancel?.();
    this.#wakeAtMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#onTimer());
  }

  /** Ends expired entries in order of deadline. */
  #onTimer(): void {
    this.#cancel = undefined;
    this.#wakeAtMs = Infinity;
    const nowMs = this.#clock.nowMs();
    const expired = this.#all.filter(({ deadlineMs }) => deadlineMs <= nowMs);
    for (const entry of expired.toSorted((a, b) => a.deadlineMs - b.deadlineMs)) {
      if (entry.listIndex < 0) continue;
      this.delete(entry);
      entry.onExpired();
    }
    let nextMs = Infinity;
    for (const { deadlineMs } of this.#all) nextMs = Math.min(nextMs, deadlineMs);
    if (nextMs < this.#wakeAtMs) this.#arm(nextMs);
  }
}
