/**
 * One timer for all that wait. Almost everything that waits is answered long before its time, so nobody gets a timer
 * of its own: when the earliest moment comes, all are looked through. It is also the list of what is under way, linked
 * through the waiters themselves, because there are many of them and each stays only for a moment.
 */
import type { Cancel, Clock } from '../../base/ports.ts';

export type DeadlineWaiter = {
  /** When it wants to be woken; it may change this at any time, and says so with `set` if it became earlier. */
  readonly wakeAtMs: number;
  /** Its neighbours in the list; undefined while it is in none. Only the list writes them. */
  before: DeadlineWaiter | undefined;
  after: DeadlineWaiter | undefined;
  onDeadline(nowMs: number): void;
};

/** However many moments lie close together, all are looked through at most so often. */
const pauseMsMin = 5;

export class CallTimerList {
  readonly #clock: Clock;
  /** Between the last and the first; never woken. */
  readonly #ends: DeadlineWaiter = { wakeAtMs: Infinity, before: undefined, after: undefined, onDeadline: () => {} };
  #size = 0;
  #cancel: Cancel | undefined;
  #dueMs = Infinity;
  #rangMs = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#ends.before = this.#ends;
    this.#ends.after = this.#ends;
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
    const last = this.#ends.before as DeadlineWaiter;
    waiter.before = last;
    waiter.after = this.#ends;
    last.after = waiter;
    this.#ends.before = waiter;
    this.#size += 1;
  }

  #arm(dueMs: number): void {
    this.#cancel?.();
    this.#dueMs = dueMs;
    const atMs = Math.max(dueMs, this.#rangMs + pauseMsMin);
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#ring());
  }

  #ring(): void {
    this.#dueMs = Infinity;
    this.#cancel = undefined;
    const nowMs = this.#clock.nowMs();
    this.#rangMs = nowMs;
    for (const waiter of this.#due(nowMs)) {
      // One that was woken may have ended another one.
      if (waiter.after !== undefined && waiter.wakeAtMs <= nowMs) waiter.onDeadline(nowMs);
    }
    let next = Infinity;
    for (let at = this.#ends.after; at !== undefined && at !== this.#ends; at = at.after) {
      next = Math.min(next, at.wakeAtMs);
    }
    if (next < this.#dueMs) this.#arm(next);
  }

  #due(nowMs: number): readonly DeadlineWaiter[] {
    const due: DeadlineWaiter[] = [];
    for (let at = this.#ends.after; at !== undefined && at !== this.#ends; at = at.after) {
      if (at.wakeAtMs <= nowMs) due.push(at);
    }
    return due;
  }
}
