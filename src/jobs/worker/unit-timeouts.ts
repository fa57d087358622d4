/** Reports units that exceed their timeout, each once, with one timer for all. Never stops a unit itself. */
import type { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { UnitAttempt } from './unit-attempt.ts';

export class UnitTimeouts {
  readonly #clock: Clock;
  readonly #units: CompactingSet<UnitAttempt>;
  readonly #expired: (unit: UnitAttempt) => void;
  /** Never later than the first timeout of a unit. */
  #atMs = Infinity;
  #cancel: Cancel | undefined;

  /** `units` is the live set of attempts on cores; the caller maintains it. */
  constructor(clock: Clock, units: CompactingSet<UnitAttempt>, expired: (unit: UnitAttempt) => void) {
    this.#clock = clock;
    this.#units = units;
    this.#expired = expired;
  }

  /** The attempt holds a core from now on. */
  start(unit: UnitAttempt): void {
    unit.timeoutAtMs = this.#clock.nowMs() + unit.requirements.timeoutMs;
    if (unit.timeoutAtMs < this.#atMs) this.#wakeAt(unit.timeoutAtMs);
  }

  /** No attempt holds a core any more. */
  clear(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#atMs = Infinity;
  }

  #wakeAt(atMs: number): void {
    this.#cancel?.();
    this.#atMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#onTimer());
  }

  #onTimer(): void {
    const nowMs = this.#clock.nowMs();
    this.clear();
    for (const unit of [...this.#units]) if (this.#units.has(unit) && unit.timeoutAtMs <= nowMs) this.#expired(unit);
    // An attempt that expired is reported once, even if it takes longer to end.
    let nextMs = Infinity;
    for (const { timeoutAtMs } of this.#units) if (timeoutAtMs > nowMs) nextMs = Math.min(nextMs, timeoutAtMs);
    if (nextMs < this.#atMs) this.#wakeAt(nextMs);
  }
}
