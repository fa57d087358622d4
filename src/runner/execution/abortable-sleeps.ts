/** Sleeps that end early when the run is aborted: sleep() rejects with CANCELLED, wait() just ends. Bounded. */
import { RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';

const sleepersMax = 1_000_000;

type Sleeper = { readonly ended: (error: RemusterError) => void; readonly cancel: Cancel };

export class AbortableSleeps {
  readonly #clock: Clock;
  readonly #waiting = new Set<Sleeper>();
  #over: string | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects with CANCELLED when the run is cut. */
  sleep(durationMs: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#wait(durationMs, resolve, reject);
    return promise;
  }

  /** Just ends when the run is cut. */
  wait(durationMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wait(durationMs, resolve, () => resolve());
    return promise;
  }

  /** Ends all waits, also those to come. */
  abort(why: string): void {
    this.#over = why;
    if (this.#waiting.size === 0) return;
    const error = new RemusterError('CANCELLED', why);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const sleeper of waiting) {
      sleeper.cancel();
      sleeper.ended(error);
    }
  }

  #wait(durationMs: number, woken: () => void, ended: (error: RemusterError) => void): void {
    if (this.#over !== undefined) return ended(new RemusterError('CANCELLED', this.#over));
    if (this.#waiting.size >= sleepersMax)
      return ended(new RemusterError('CAPACITY', `more than ${sleepersMax} sleep at one time`));
    const cancel = this.#clock.schedule(durationMs, () => {
      this.#waiting.delete(sleeper);
      woken();
    });
    const sleeper: Sleeper = { ended, cancel };
    this.#waiting.add(sleeper);
    return undefined;
  }
}
