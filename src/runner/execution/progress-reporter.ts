/**
 * Reports the progress of a run every 200 ms, and measures the lag of the event loop: late ticks mark the run as
 * saturated. Leaves out a summary that is too large.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import { encodeSummary } from '../../jobs/report/summary-codec.ts';
import type { Summary } from '../../jobs/report/summary.ts';

const intervalMs = 200;
/** Every report has the counts, every fifth the summary. */
const ticksPerSummary = 5;
const lateMs = 50;
/** Saturated: this many late ticks, and more than half of all. */
const lateTicksMin = 3;

export class ProgressReporter {
  readonly #clock: Clock;
  readonly #summary: Summary;
  readonly #report: (summary: Uint8Array | undefined) => void;
  #cancel: Cancel;
  #dueMs: number;
  #ticks = 0;
  #lateTicks = 0;

  constructor(clock: Clock, summary: Summary, report: (summary: Uint8Array | undefined) => void) {
    this.#clock = clock;
    this.#summary = summary;
    this.#report = report;
    this.#dueMs = clock.nowMs() + intervalMs;
    this.#cancel = clock.schedule(intervalMs, this.#tick);
  }

  stop(): void {
    this.#cancel();
  }

  readonly #tick = (): void => {
    const nowMs = this.#clock.nowMs();
    this.#recordLag(nowMs - this.#dueMs);
    this.#report(this.#ticks % ticksPerSummary === 1 ? this.#encoded() : undefined);
    this.#dueMs = nowMs + intervalMs;
    this.#cancel = this.#clock.schedule(intervalMs, this.#tick);
  };

  #recordLag(lagMs: number): void {
    this.#ticks += 1;
    this.#summary.lagMaxUs = Math.max(this.#summary.lagMaxUs, lagMs * 1_000);
    if (lagMs < lateMs) return;
    this.#lateTicks += 1;
    if (this.#lateTicks >= lateTicksMin && this.#lateTicks * 2 > this.#ticks) this.#summary.saturated = true;
  }

  /** Undefined if it is too large; then the run ends with a failure, and reports have the counts only. */
  #encoded(): Uint8Array | undefined {
    try {
      return encodeSummary(this.#summary);
    } catch {
      return undefined;
    }
  }
}
