/**
 * Pending requests of this node with a deadline each. A callback is called once, never inside the call that made the
 * request.
 */
import { type Done, type Outcome, failure } from '../base/errors.ts';
import type { Cancel, Clock } from '../base/ports.ts';

type Call = { readonly deadlineMs: number; readonly done: Done<unknown> };

/** Sweeps are no closer to each other, so that many deadlines cost little. */
const sweepMsMin = 2;

export class PendingCalls {
  readonly #clock: Clock;
  readonly #open = new Map<number, Call>();
  #last = 0;
  #sweep: Cancel | undefined;
  #sweepAtMs = Infinity;
  /** Ended while their caller is still in the middle of asking. */
  #deferred: (() => void)[] = [];
  #asking = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  open<T>(timeoutMs: number, done: Done<T>): number {
    const call = ++this.#last;
    const deadlineMs = this.#clock.nowMs() + Math.max(0, timeoutMs);
    this.#open.set(call, { deadlineMs, done: done as Done<unknown> });
    if (deadlineMs < this.#sweepAtMs) this.#arm(deadlineMs);
    return call;
  }

  /** Whatever ends during `ask` is told after it has returned. */
  runDeferred(ask: () => void): void {
    this.#asking += 1;
    try {
      ask();
    } finally {
      this.#asking -= 1;
    }
  }

  end(call: number, outcome: Outcome<unknown>): void {
    const known = this.#open.get(call);
    if (known === undefined) return;
    this.#open.delete(call);
    if (this.#open.size === 0) this.#disarm();
    if (this.#asking === 0) return known.done(outcome);
    this.#deferred.push(() => known.done(outcome));
    if (this.#deferred.length === 1) this.#clock.schedule(0, () => this.#tellEarly());
  }

  isOpen(call: number): boolean {
    return this.#open.has(call);
  }

  failAll(outcome: Outcome<never>): void {
    for (const call of [...this.#open.keys()]) this.end(call, outcome);
  }

  #tellEarly(): void {
    for (const tell of this.#deferred.splice(0)) tell();
  }

  #arm(atMs: number): void {
    this.#sweep?.();
    this.#sweepAtMs = atMs;
    this.#sweep = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#expire());
  }

  #disarm(): void {
    this.#sweep?.();
    this.#sweep = undefined;
    this.#sweepAtMs = Infinity;
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs();
    this.#sweepAtMs = Infinity;
    let nextMs = Infinity;
    const late: number[] = [];
    for (const [call, { deadlineMs }] of this.#open) {
      if (deadlineMs <= nowMs) late.push(call);
      else nextMs = Math.min(nextMs, deadlineMs);
    }
    if (nextMs < Infinity) this.#arm(Math.max(nextMs, nowMs + sweepMsMin));
    for (const call of late) this.end(call, failure('DEADLINE'));
  }
}
