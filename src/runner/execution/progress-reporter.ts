/**
 * Reports the progress of a run every 200 ms and measures event-loop lag; marks the run saturated when ticks are late.
 * Omits a summary that is too large.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import { encodeSummary } from '../../jobs/report/summary-codec.ts';
import type { Summary } from '../../jobs/report/summary.ts';

const everyMs = 200;
/** The counts come with each, everything else with each so-manyth. */
const wholeEvery = 5;
const lateMs = 50;
/** That many late ones, and more than half of all: the core does all it can. */
const lateTicksMin = 3;

export class ProgressReporter {
  readonly #clock: Clock;
  readonly #summary: Summary;
  readonly #tell: (summary: Uint8Array | undefined) => void;
  #cancel: Cancel;
  #dueMs: number;
  #ticks = 0;
  #lateTicks = 0;

  constructor(clock: Clock, summary: Summary, tell: (summary: Uint8Array | undefined) => void) {
    this.#clock = clock;
    this.#summary = summary;
    this.#tell = tell;
    this.#dueMs = clock.nowMs() + everyMs;
    this.#cancel = clock.schedule(everyMs, this.#tick);
  }

  stop(): void {
    this.#cancel();
  }

  readonly #tick = (): void => {
    const nowMs = this.#clock.nowMs();
    this.#noteLag(nowMs - this.#dueMs);
    this.#tell(this.#ticks % wholeEvery === 1 ? this.#encoded() : undefined);
    this.#dueMs = nowMs + everyMs;
    this.#cancel = this.#clock.schedule(everyMs, this.#tick);
  };

  #noteLag(lagMs: number): void {
    this.#ticks += 1;
    this.#summary.lagMaxUs = Math.max(this.#summary.lagMaxUs, lagMs * 1_000);
    if (lagMs < lateMs) return;
    this.#lateTicks += 1;
    if (this.#lateTicks >= lateTicksMin && this.#lateTicks * 2 > this.#ticks) this.#summary.saturated = true;
  }

  /** One that is too large is told with the end, as a failure; until then the counts have to do. */
  #encoded(): Uint8Array | undefined {
    try {
      return encodeSummary(this.#summary);
    } catch {
      return undefined;
    }
  }
}
