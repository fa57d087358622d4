/**
 * Gives the loop of the process its turn. Code that never waits for anything would keep timers and the pipe from being
 * served for ever, and promises that resolve at once do not help: whoever works asks here now and then, and waits.
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
