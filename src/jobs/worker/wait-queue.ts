/**
 * Queues units that wait for a core, first in first out, bounded by count and bytes. Returns a unit to the manager
 * after 500 ms.
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
  /** Of the first one: the others came later and wait as long. */
  #timer: Cancel | undefined;

  /** `expired`: this one has waited for too long and has left the line. */
  constructor(clock: Clock, cores: number, expired: (unit: UnitAttempt) => void) {
    this.#clock = clock;
    this.#max = Math.min(unitsMax, cores * unitsPerCoreMax);
    this.#expired = expired;
  }

  hasCapacityFor(orderBytes: number): boolean {
    return this.#units.size < this.#max && this.#bytes + orderBytes <= bytesMax;
  }

  push(unit: UnitAttempt): void {
    this.#units.add(unit);
    this.#bytes += unit.spec.length;
    if (this.#timer === undefined) this.#watch(unit);
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

  #watch(first: UnitAttempt): void {
    const leftMs = first.givenMs + waitMsMax - this.#clock.nowMs();
    this.#timer = this.#clock.schedule(Math.max(0, leftMs), () => this.#look());
  }

  #look(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.nowMs();
    const late = [...this.#units].filter(({ givenMs }) => nowMs - givenMs >= waitMsMax);
    for (const unit of late) this.remove(unit);
    const { first } = this;
    if (first !== undefined) this.#watch(first);
    for (const unit of late) this.#expired(unit);
  }
}
