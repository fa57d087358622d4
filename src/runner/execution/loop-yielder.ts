/**
 * Yields to the event loop every 8 ms, so that timers and the pipe are served although user code awaits nothing, or
 * only promises that resolve at once.
 */
import type { Clock } from '../../base/ports.ts';

const sliceMs = 8;

export class LoopYielder {
  readonly #clock: Clock;
  #turn: Promise<void> | undefined;
  /** From then on a loop should call `yieldToLoop`. */
  yieldDueMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.yieldDueMs = clock.nowMs() + sliceMs;
  }

  /** All waiting loops share one timer. */
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
