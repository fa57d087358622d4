/**
 * Ends a load test: at the deadline no iteration starts any more; 10 s later the run is aborted, and 1 s after that
 * users that are still running are abandoned. Counts running users.
 */
import type { Cancel } from '../../base/ports.ts';
import type { RunScope } from './run-scope.ts';

const graceMs = 10_000;
const abandonMs = 1_000;

/** `finished` resolves when no user is running, or the running ones are abandoned. */
export class LoadDeadline {
  readonly #run: RunScope;
  readonly #finished = Promise.withResolvers<void>();
  readonly endMs: number;
  #running = 0;
  #cancel: Cancel = () => undefined;
  /** Code of the run was abandoned: it ignores the abort signal and is still running. */
  isTainted = false;

  constructor(run: RunScope, startMs: number, durationMs: number | undefined) {
    this.#run = run;
    this.endMs = startMs + (durationMs ?? Infinity);
    if (durationMs !== undefined) this.#cancel = run.clock.schedule(durationMs + graceMs, () => this.#abort());
  }

  get isPast(): boolean {
    return this.isPastAt(this.#run.clock.nowMs());
  }

  /** Like `isPast`, for a caller that has read the clock. */
  isPastAt(nowMs: number): boolean {
    return this.#run.isStopped || nowMs >= this.endMs;
  }

  get finished(): Promise<void> {
    return this.#finished.promise;
  }

  addRunning(): void {
    this.#running += 1;
  }

  removeRunning(): void {
    this.#running -= 1;
    if (this.#running > 0) return;
    this.#cancel();
    this.#finished.resolve();
  }

  #abort(): void {
    this.#run.abort('the load test has ended');
    this.#cancel = this.#run.clock.schedule(abandonMs, () => {
      this.isTainted = true;
      this.#finished.resolve();
    });
  }
}
