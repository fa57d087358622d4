/** Reports units that exceed their timeout, with one timer for all. Never ends a unit itself. */
import type { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { UnitAttempt } from './unit-attempt.ts';

export class UnitTimeouts {
  readonly #clock: Clock;
  readonly #units: CompactingSet<UnitAttempt>;
  readonly #late: (unit: UnitAttempt) => void;
  /** Of all of them, or earlier. */
  #atMs = Infinity;
  #cancel: Cancel | undefined;

  /** `units`: those that are on cores at any moment. */
  constructor(clock: Clock, units: CompactingSet<UnitAttempt>, late: (unit: UnitAttempt) => void) {
    this.#clock = clock;
    this.#units = units;
    this.#late = late;
  }

  /** It is on a core from now on. */
  start(unit: UnitAttempt): void {
    unit.timeoutAtMs = this.#clock.nowMs() + unit.requirements.timeoutMs;
    if (unit.timeoutAtMs < this.#atMs) this.#wakeAt(unit.timeoutAtMs);
  }

  /** There are none any more. */
  clear(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#atMs = Infinity;
  }

  #wakeAt(atMs: number): void {
    this.#cancel?.();
    this.#atMs = atMs;
    this.#cancel = this.#clock.schedule(Math.max(0, atMs - this.#clock.nowMs()), () => this.#look());
  }

  #look(): void {
    const nowMs = this.#clock.nowMs();
    this.clear();
    for (const unit of [...this.#units]) if (this.#units.has(unit) && unit.timeoutAtMs <= nowMs) this.#late(unit);
    // One whose time was over is told once, also if it takes longer to end.
    let nextMs = Infinity;
    for (const { timeoutAtMs } of this.#units) if (timeoutAtMs > nowMs) nextMs = Math.min(nextMs, timeoutAtMs);
    if (nextMs < this.#atMs) this.#wakeAt(nextMs);
  }
}
