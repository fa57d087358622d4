/** One timer for all deadlines, armed for the earliest. */
import type { Cancel, Clock } from '../../../base/ports.ts';

export class DeadlineTimer {
  readonly #clock: Clock;
  readonly #expire: (nowMs: number) => number;
  #armedMs = Infinity;
  #cancel: Cancel | undefined;
  #stopped = false;

  /** `expire` handles the deadlines that are due and returns the next one, or Infinity. */
  constructor(clock: Clock, expire: (nowMs: number) => number) {
    this.#clock = clock;
    this.#expire = expire;
  }

  arm(atMs: number): void {
    if (atMs >= this.#armedMs || this.#stopped) return;
    this.#cancel?.();
    this.#armedMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), this.#onTimer);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  readonly #onTimer = (): void => {
    this.#armedMs = Infinity;
    this.arm(this.#expire(this.#clock.nowMs()));
  };
}
