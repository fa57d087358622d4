/**
 * One budget of time for the steps of a stop. A step gets all that is left, less what is reserved for the steps after
 * it: a step that hangs takes no time from them.
 */
import type { Clock } from '../../base/ports.ts';

export class StopBudget {
  readonly #clock: Clock;
  readonly #totalMs: number;
  readonly #deadlineMs: number;

  constructor(clock: Clock, totalMs: number) {
    this.#clock = clock;
    this.#totalMs = totalMs;
    this.#deadlineMs = clock.nowMs() + totalMs;
  }

  /** How long a step may take that begins now; `laterShares` are the parts of the budget that later steps reserve. */
  limitMs(laterShares: readonly number[]): number {
    const reservedMs = laterShares.reduce((sum, share) => sum + share, 0) * this.#totalMs;
    return Math.max(0, this.#deadlineMs - this.#clock.nowMs() - reservedMs);
  }
}
