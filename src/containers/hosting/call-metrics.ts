/** Counters and a duration histogram over all calls of this node. */
import { Histogram } from '../../base/histogram.ts';

export class CallMetrics {
  readonly durations = new Histogram();
  #calls = 0;
  #failed = 0;

  /** Calls that have ended. */
  get calls(): number {
    return this.#calls;
  }

  /** Of them, those that ended in an error. */
  get failed(): number {
    return this.#failed;
  }

  recordEnded(durationMs: number, isOk: boolean): void {
    this.#calls += 1;
    if (!isOk) this.#failed += 1;
    this.durations.record(durationMs * 1_000);
  }
}
