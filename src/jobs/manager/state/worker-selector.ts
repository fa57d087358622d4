/**
 * Selects the worker for a unit: eligible, with a core, not failed before; then most free cores, lowest load, best
 * health, random. Explains refusals.
 */
import type { NodeId } from '../../../base/ids.ts';
import type { Random } from '../../../base/random.ts';
import type { WorkerStatus } from './manager-ports.ts';
import type { ManagedUnit } from '../model/managed-job.ts';
import { type WorkerSession, type WorkerTable, freeCoresOf } from '../model/worker-table.ts';

const levels = ['normal', 'elevated', 'high', 'severe', 'critical'];
/** Units of a core that a worker may have at one time: the others wait there for their turn. */
export const unitsPerCore = { long: 1, short: 32, quick: 128 } as const;
/** Of all its cores together; a worker keeps a few more. */
const aheadMax = 480;
const keptMs = 50;

export class WorkerSelector {
  readonly #seats: WorkerTable;
  readonly #random: Random;
  readonly #ask: (id: NodeId) => WorkerStatus | undefined;
  /** What membership said a moment ago: to ask costs more than to choose. */
  readonly #kept = new Map<NodeId, WorkerStatus | undefined>();
  #keptMs = -Infinity;
  /** Of the pass that goes on: who may get anything. */
  #usable: { readonly seat: WorkerSession; readonly health: number; readonly level: number }[] = [];

  constructor(seats: WorkerTable, random: Random, known: (id: NodeId) => WorkerStatus | undefined) {
    this.#seats = seats;
    this.#random = random;
    this.#ask = known;
  }

  /** Looks at all workers once; what `pick` answers until the next `begin` rests on it. */
  refresh(nowMs: number): void {
    this.#usable = [];
    if (nowMs >= this.#keptMs + keptMs) this.invalidate(nowMs);
    for (const seat of this.#seats.values()) {
      if (this.ineligibleReason(seat, nowMs) !== undefined) continue;
      const level = Math.max(0, levels.indexOf(seat.loadLevel));
      this.#usable.push({ seat, level, health: this.#knownOf(seat.id)?.health ?? 0 });
    }
  }

  /** Membership has changed. */
  invalidate(nowMs: number): void {
    this.#kept.clear();
    this.#keptMs = nowMs;
  }

  #knownOf(id: NodeId): WorkerStatus | undefined {
    if (!this.#kept.has(id)) this.#kept.set(id, this.#ask(id));
    return this.#kept.get(id);
  }

  /** Why this worker gets nothing at all now; undefined if it may. */
  ineligibleReason(seat: WorkerSession, nowMs: number): string | undefined {
    if (!seat.hasReported) return 'it has not reported to this leader yet';
    if (!this.#seats.holdsLease(seat, nowMs)) return 'it was not heard for too long';
    const known = this.#knownOf(seat.id);
    if (known === undefined) return 'membership does not know it';
    if (known.generation !== seat.generation) return 'it was started anew';
    if (known.state !== 'alive') return `membership says ${known.state}`;
    if (known.stuck) return 'it is stuck';
    if (known.admin !== 'active') return `it is ${known.admin ?? 'not registered'}`;
    if (seat.draining) return 'it is draining';
    if (nowMs < seat.backoffUntilMs) return 'it refused a moment ago';
    return undefined;
  }

  /** Cores of all that may get something, free or not. */
  totalCores(): number {
    let sum = 0;
    for (const { seat } of this.#usable) sum += seat.coresTotal;
    return sum;
  }

  /** Somebody may get something, be it ahead. */
  hasCapacity(): boolean {
    for (const { seat } of this.#usable) if (roomOf(seat, unitsPerCore.quick) > 0) return true;
    return false;
  }

  freeCores(): number {
    let sum = 0;
    for (const { seat } of this.#usable) sum += freeCoresOf(seat);
    return sum;
  }

  /** `perCore`: with so many others of a core. */
  pick(unit: ManagedUnit, perCore: number): WorkerSession | undefined {
    let best: { seat: WorkerSession; room: number; level: number; health: number } | undefined;
    let equals = 1;
    for (const { seat, level, health } of this.#usable) {
      const room = roomOf(seat, perCore);
      if (room <= 0 || isExcluded(unit, seat)) continue;
      const difference = best === undefined ? 1 : room - best.room || best.level - level || best.health - health;
      if (difference < 0) continue;
      equals = difference === 0 ? equals + 1 : 1;
      if (difference > 0 || this.#random.below(equals) === 0) best = { seat, room, level, health };
    }
    return best?.seat;
  }

  /** For people. */
  explain(unit: ManagedUnit | undefined, nowMs: number): readonly string[] {
    const lines: string[] = [];
    for (const seat of this.#seats.values()) {
      const excluded = unit !== undefined && isExcluded(unit, seat);
      const why = this.ineligibleReason(seat, nowMs) ?? (excluded ? 'it failed this unit before' : undefined);
      const cores = `${freeCoresOf(seat)} of ${seat.coresTotal} cores free`;
      lines.push(`${seat.name}: ${why === undefined ? 'may take it' : `cannot take it, ${why}`} (${cores})`);
    }
    return lines;
  }
}

function roomOf({ coresTotal, assignments }: WorkerSession, perCore: number): number {
  return Math.min(coresTotal * perCore, coresTotal + aheadMax) - assignments.size;
}

function isExcluded(unit: ManagedUnit, seat: WorkerSession): boolean {
  for (const { worker, generation, outcome } of unit.attempts)
    if (worker === seat.id && generation === seat.generation && (outcome === 'lost' || outcome === 'failed'))
      return true;
  return false;
}
