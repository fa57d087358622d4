/** Sleeps that end early when the run is aborted: sleep() rejects with CANCELLED, wait() resolves. Bounded. */
import { RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';

const sleepersMax = 1_000_000;

type Sleeper = { readonly onAbort: (error: RemusterError) => void; readonly cancel: Cancel };

export class AbortableSleeps {
  readonly #clock: Clock;
  readonly #sleepers = new Set<Sleeper>();
  #abortReason: string | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects with CANCELLED when the run is aborted. */
  sleep(durationMs: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#wait(durationMs, resolve, reject);
    return promise;
  }

  /** Resolves early when the run is aborted. */
  wait(durationMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wait(durationMs, resolve, () => resolve());
    return promise;
  }

  /** Ends all present and later sleeps. */
  abort(why: string): void {
    this.#abortReason = why;
    if (this.#sleepers.size === 0) return;
    const error = new RemusterError('CANCELLED', why);
    const sleepers = [...this.#sleepers];
    this.#sleepers.clear();
    for (const sleeper of sleepers) {
      sleeper.cancel();
      sleeper.onAbort(error);
    }
  }

  #wait(durationMs: number, onDue: () => void, onAbort: (error: RemusterError) => void): void {
    if (this.#abortReason !== undefined) return onAbort(new RemusterError('CANCELLED', this.#abortReason));
    if (this.#sleepers.size >= sleepersMax)
      return onAbort(new RemusterError('CAPACITY', `more than ${sleepersMax} sleeps at a time`));
    const cancel = this.#clock.schedule(durationMs, () => {
      this.#sleepers.delete(sleeper);
      onDue();
    });
    const sleeper: Sleeper = { onAbort, cancel };
    this.#sleepers.add(sleeper);
    return undefined;
  }
}
