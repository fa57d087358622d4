/** Ends a load test: no new work at the deadline, 10 s to finish, then abort, then abandon. Counts running users. */
import type { Cancel } from '../../base/ports.ts';
import type { RunScope } from './run-scope.ts';

const graceMs = 10_000;
const lastMomentMs = 1_000;

/** Counts those at work; `over` resolves when none is left, or nobody waits for them any more. */
export class LoadDeadline {
  readonly #run: RunScope;
  readonly #over = Promise.withResolvers<void>();
  readonly endMs: number;
  #working = 0;
  #cancel: Cancel = () => undefined;
  /** Some code still runs that does not care whether its run is over. */
  isTainted = false;

  constructor(run: RunScope, startMs: number, durationMs: number | undefined) {
    this.#run = run;
    this.endMs = startMs + (durationMs ?? Infinity);
    if (durationMs !== undefined) this.#cancel = run.clock.schedule(durationMs + graceMs, () => this.#cut());
  }

  get isOver(): boolean {
    return this.isOverAt(this.#run.clock.nowMs());
  }

  /** For whoever knows what time it is. */
  isOverAt(nowMs: number): boolean {
    return this.#run.isStopped || nowMs >= this.endMs;
  }

  get over(): Promise<void> {
    return this.#over.promise;
  }

  started(): void {
    this.#working += 1;
  }

  finished(): void {
    this.#working -= 1;
    if (this.#working > 0) return;
    this.#cancel();
    this.#over.resolve();
  }

  #cut(): void {
    this.#run.abort('the time of the test is over');
    this.#cancel = this.#run.clock.schedule(lastMomentMs, () => {
      this.isTainted = true;
      this.#over.resolve();
    });
  }
}
