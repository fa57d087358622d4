/**
 * The Clock port on Node timers. Timers fire in order of due time by the monotonic clock, never early, although Node's
 * own timers fire early after a long turn and at once for a delay beyond 2^31 ms. An error of a callback surfaces as an
 * uncaught exception, and the other timers still fire.
 */
import { performance } from 'node:perf_hooks';

import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { type SystemTimer, SystemTimerHeap } from './timer-heap.ts';

const timersMax = 1_000_000;
const sleepMsMax = 2 ** 31 - 1;

export function systemClock(): Clock {
  const timers = new SystemTimers();
  return {
    nowMs: () => performance.now(),
    wallMs: () => Date.now(),
    schedule: (delayMs, run) => timers.schedule(delayMs, run),
  };
}

class SystemTimers {
  readonly #heap = new SystemTimerHeap();
  #order = 0;
  #wakeUp: NodeJS.Timeout | undefined;
  /** For timers that are due now: a timeout would wait a millisecond. */
  #wakeNow: NodeJS.Immediate | undefined;
  #wakeAtMs = Infinity;

  schedule(delayMs: number, run: () => void): Cancel {
    assert(Number.isFinite(delayMs), 'a delay is a finite number of milliseconds');
    if (this.#heap.size >= timersMax) throw new RemusterError('CAPACITY', `more than ${timersMax} timers`);
    const timer: SystemTimer = {
      dueMs: performance.now() + Math.max(0, delayMs),
      order: this.#order++,
      run,
      index: -1,
    };
    this.#heap.push(timer);
    if (timer.dueMs < this.#wakeAtMs) this.#arm();
    else if (this.#heap.size === 1) this.#wakeUp?.ref();
    return () => {
      this.#heap.remove(timer);
      // A spurious wake-up costs less than rearming on each cancel, but it must not keep the process alive.
      if (this.#heap.size === 0) this.#wakeUp?.unref();
    };
  }

  #arm(): void {
    this.#disarm();
    const next = this.#heap.peek();
    if (next === undefined) return;
    this.#wakeAtMs = next.dueMs;
    const sleepMs = Math.min(sleepMsMax, Math.ceil(Math.max(0, next.dueMs - performance.now())));
    if (sleepMs === 0) this.#wakeNow = setImmediate(this.#fireNow);
    else this.#wakeUp = setTimeout(this.#fireNow, sleepMs);
  }

  readonly #fireNow = (): void => this.#fire();

  #disarm(): void {
    clearTimeout(this.#wakeUp);
    clearImmediate(this.#wakeNow);
    this.#wakeAtMs = Infinity;
  }

  /** Runs what was due and scheduled before this turn; what a callback adds waits for the next one. */
  #fire(): void {
    const nowMs = performance.now();
    const order = this.#order;
    // Keeps `schedule` from arming while callbacks run: `finally` arms once, also when a callback throws.
    this.#wakeAtMs = -Infinity;
    try {
      for (let next = this.#heap.peek(); next !== undefined; next = this.#heap.peek()) {
        if (next.dueMs > nowMs || next.order >= order) break;
        this.#heap.remove(next);
        next.run();
      }
    } finally {
      this.#arm();
    }
  }
}
