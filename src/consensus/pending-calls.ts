/**
 * Pending requests of this node with a deadline each. A callback is called once, never inside the call that made the
 * request.
 */
import { type Done, type Outcome, failure } from '../base/errors.ts';
import type { Cancel, Clock } from '../base/ports.ts';

type PendingCall = { readonly deadlineMs: number; readonly done: Done<unknown> };

/** Minimum time between sweeps, so that many deadlines cost little. */
const sweepMsMin = 2;

export class PendingCalls {
  readonly #clock: Clock;
  readonly #open = new Map<number, PendingCall>();
  #last = 0;
  #sweep: Cancel | undefined;
  #sweepAtMs = Infinity;
  /** Callbacks of calls that ended while their request was still running. */
  #deferred: (() => void)[] = [];
  #running = 0;

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

  /** Callbacks of calls that end during `request` run after it has returned. */
  runDeferred(request: () => void): void {
    this.#running += 1;
    try {
      request();
    } finally {
      this.#running -= 1;
    }
  }

  end(call: number, outcome: Outcome<unknown>): void {
    const known = this.#open.get(call);
    if (known === undefined) return;
    this.#open.delete(call);
    if (this.#open.size === 0) this.#disarm();
    if (this.#running === 0) return known.done(outcome);
    this.#deferred.push(() => known.done(outcome));
    if (this.#deferred.length === 1) this.#clock.schedule(0, () => this.#flushDeferred());
  }

  isOpen(call: number): boolean {
    return this.#open.has(call);
  }

  failAll(outcome: Outcome<never>): void {
    for (const call of [...this.#open.keys()]) this.end(call, outcome);
  }

  #flushDeferred(): void {
    for (const callback of this.#deferred.splice(0)) callback();
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
