/**
 * Yields to the event loop every 8 ms, so that timers and the pipe are served while user code never awaits; promises
 * that resolve at once would not let them.
 */
import type { Clock } from '../../base/ports.ts';

const sliceMs = 8;

export class LoopYielder {
  readonly #clock: Clock;
  #turn: Promise<void> | undefined;
  /** From then on one should wait for a turn. */
  yieldDueMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.yieldDueMs = clock.nowMs() + sliceMs;
  }

  /** All who wait share one turn. */
  yieldToLoop(): Promise<void> {
    this.#turn ??= new Promise((resolve) => {
      this.#clock.schedule(0, () => {
        this.#turn = undefined;
        this.yieldDueMs = this.#clock.nowMs() + sliceMs;
        resolve();
      });
    });
    return this.#turn;
  }
}
