/**
 * One timer for all open calls; when it fires, all of them are checked. Almost every call ends long before its
 * deadline, so a timer for each would cost more than the check. The list is linked through the calls themselves.
 */
import type { Cancel, Clock } from '../../base/ports.ts';

export type DeadlineWaiter = {
  /** When `onDeadline` is due. It may change at any time; if it becomes earlier, the waiter calls `set`. */
  readonly wakeAtMs: number;
  /** Neighbours in the list; undefined outside of one. Only the list writes them. */
  before: DeadlineWaiter | undefined;
  after: DeadlineWaiter | undefined;
  onDeadline(nowMs: number): void;
};

/** The least time between two checks, however close the deadlines are. */
const fireIntervalMsMin = 5;

export class CallTimerList {
  readonly #clock: Clock;
  /** The sentinel between last and first; never due. */
  readonly #sentinel: DeadlineWaiter = {
    wakeAtMs: Infinity,
    before: undefined,
    after: undefined,
    onDeadline: () => {},
  };
  #size = 0;
  #cancel: Cancel | undefined;
  #dueMs = Infinity;
  #lastFiredMs = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sentinel.before = this.#sentinel;
    this.#sentinel.after = this.#sentinel;
  }

  get size(): number {
    return this.#size;
  }

  set(waiter: DeadlineWaiter): void {
    if (waiter.after === undefined) this.#link(waiter);
    if (waiter.wakeAtMs < this.#dueMs) this.#arm(waiter.wakeAtMs);
  }

  delete(waiter: DeadlineWaiter): void {
    const { before, after } = waiter;
    if (before === undefined || after === undefined) return;
    before.after = after;
    after.before = before;
    waiter.before = undefined;
    waiter.after = undefined;
    this.#size -= 1;
  }

  #link(waiter: DeadlineWaiter): void {
    const last = this.#sentinel.before as DeadlineWaiter;
    waiter.before = last;
    waiter.after = this.#sentinel;
    last.after = waiter;
    this.#sentinel.before = waiter;
    this.#size += 1;
  }

  #arm(dueMs: number): void {
    this.#cancel?.();
    this.#dueMs = dueMs;
    const atMs = Math.max(dueMs, this.#lastFiredMs + fireIntervalMsMin);
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#fire());
  }

  #fire(): void {
    this.#dueMs = Infinity;
    this.#cancel = undefined;
    const nowMs = this.#clock.nowMs();
    this.#lastFiredMs = nowMs;
    for (const waiter of this.#due(nowMs)) {
      // The callback of one waiter may remove another.
      if (waiter.after !== undefined && waiter.wakeAtMs <= nowMs) waiter.onDeadline(nowMs);
    }
    let next = Infinity;
    for (let at = this.#sentinel.after; at !== undefined && at !== this.#sentinel; at = at.after) {
      next = Math.min(next, at.wakeAtMs);
    }
    if (next < this.#dueMs) this.#arm(next);
  }

  #due(nowMs: number): readonly DeadlineWaiter[] {
    const due: DeadlineWaiter[] = [];
    for (let at = this.#sentinel.after; at !== undefined && at !== this.#sentinel; at = at.after) {
      if (at.wakeAtMs <= nowMs) due.push(at);
    }
    return due;
  }
}
