/**
 * Queues units that wait for a core, first in first out, bounded by count and bytes. Reports a unit that has waited
 * 500 ms, so that the manager can assign it elsewhere. Never starts a unit.
 */
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { UnitAttempt } from './unit-attempt.ts';

const unitsPerCoreMax = 128;
const unitsMax = 512;
const bytesMax = 64 * 2 ** 20;
const waitMsMax = 500;

export class WaitQueue {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #expired: (unit: UnitAttempt) => void;
  readonly #units = new CompactingSet<UnitAttempt>();
  #bytes = 0;
  /** Timer of the first unit; all wait equally long. */
  #timer: Cancel | undefined;

  /** `expired` gets each unit that waited too long, after its removal from the queue. */
  constructor(clock: Clock, cores: number, expired: (unit: UnitAttempt) => void) {
    this.#clock = clock;
    this.#max = Math.min(unitsMax, cores * unitsPerCoreMax);
    this.#expired = expired;
  }

  hasCapacityFor(specBytes: number): boolean {
    return this.#units.size < this.#max && this.#bytes + specBytes <= bytesMax;
  }

  push(unit: UnitAttempt): void {
    this.#units.add(unit);
    this.#bytes += unit.spec.length;
    if (this.#timer === undefined) this.#arm(unit);
  }

  get first(): UnitAttempt | undefined {
    return this.#units[Symbol.iterator]().next().value;
  }

  shift(): UnitAttempt | undefined {
    const unit = this.first;
    if (unit !== undefined) this.remove(unit);
    return unit;
  }

  remove(unit: UnitAttempt): void {
    if (!this.#units.delete(unit)) return;
    this.#bytes -= unit.spec.length;
    if (this.#units.size > 0) return;
    this.#timer?.();
    this.#timer = undefined;
  }

  takeAll(): readonly UnitAttempt[] {
    const units = [...this.#units];
    for (const unit of units) this.remove(unit);
    return units;
  }

  #arm(first: UnitAttempt): void {
    const leftMs = first.acceptedMs + waitMsMax - this.#clock.nowMs();
    this.#timer = this.#clock.schedule(Math.max(0, leftMs), () => this.#onTimer());
  }

  #onTimer(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.nowMs();
    const late = [...this.#units].filter(({ acceptedMs }) => nowMs - acceptedMs >= waitMsMax);
    for (const unit of late) this.remove(unit);
    const { first } = this;
    if (first !== undefined) this.#arm(first);
    for (const unit of late) this.#expired(unit);
  }
}
