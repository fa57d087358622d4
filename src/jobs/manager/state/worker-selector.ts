/**
 * Selects the worker for a unit: eligible, with a free core, without a failure of this unit; among those most free
 * cores, then lowest load, best health, random. Explains why a worker is not eligible. Never assigns.
 */
import type { NodeId } from '../../../base/ids.ts';
import type { Random } from '../../../base/random.ts';
import type { WorkerStatus } from './manager-ports.ts';
import type { ManagedUnit } from '../model/managed-job.ts';
import { type WorkerSession, type WorkerTable, freeCoresOf } from '../model/worker-table.ts';

const levels = ['normal', 'elevated', 'high', 'severe', 'critical'];
/** Units per core that may be assigned to a worker; those beyond its cores wait at the worker. */
export const unitsPerCore = { long: 1, short: 32, quick: 128 } as const;
/** Units that may wait at a worker; its own queue has space for a few more. */
const waitingMax = 480;
const cachedMs = 50;

export class WorkerSelector {
  readonly #sessions: WorkerTable;
  readonly #random: Random;
  readonly #statusOf: (id: NodeId) => WorkerStatus | undefined;
  /** Recent results of `#statusOf`, which costs more than the selection. */
  readonly #cached = new Map<NodeId, WorkerStatus | undefined>();
  #cachedAtMs = -Infinity;
  /** Eligible workers as of the last `refresh`. */
  #eligible: { readonly session: WorkerSession; readonly health: number; readonly level: number }[] = [];

  constructor(sessions: WorkerTable, random: Random, statusOf: (id: NodeId) => WorkerStatus | undefined) {
    this.#sessions = sessions;
    this.#random = random;
    this.#statusOf = statusOf;
  }

  /** Computes the eligible workers; `pick` and the counts use them until the next call. */
  refresh(nowMs: number): void {
    this.#eligible = [];
    if (nowMs >= this.#cachedAtMs + cachedMs) this.invalidate(nowMs);
    for (const session of this.#sessions.values()) {
      if (this.ineligibleReason(session, nowMs) !== undefined) continue;
      const level = Math.max(0, levels.indexOf(session.loadLevel));
      this.#eligible.push({ session, level, health: this.#cachedStatusOf(session.id)?.health ?? 0 });
    }
  }

  /** Membership has changed. */
  invalidate(nowMs: number): void {
    this.#cached.clear();
    this.#cachedAtMs = nowMs;
  }

  #cachedStatusOf(id: NodeId): WorkerStatus | undefined {
    if (!this.#cached.has(id)) this.#cached.set(id, this.#statusOf(id));
    return this.#cached.get(id);
  }

  /** Why no unit is assigned to this worker now; undefined if it is eligible. */
  ineligibleReason(session: WorkerSession, nowMs: number): string | undefined {
    if (!session.hasReported) return 'it has sent no heartbeat to this leader yet';
    if (!this.#sessions.holdsLease(session, nowMs)) return 'its lease is about to expire';
    const known = this.#cachedStatusOf(session.id);
    if (known === undefined) return 'it is not a member';
    if (known.generation !== session.generation) return 'it restarted';
    if (known.state !== 'alive') return `it is ${known.state}`;
    if (known.stuck) return 'it is stuck';
    if (known.admin !== 'active') return `it is ${known.admin ?? 'not registered'}`;
    if (session.draining) return 'it is draining';
    if (nowMs < session.backoffUntilMs) return 'it refused a unit less than a second ago';
    return undefined;
  }

  /** Cores of all eligible workers, free or not. */
  totalCores(): number {
    let sum = 0;
    for (const { session } of this.#eligible) sum += session.coresTotal;
    return sum;
  }

  /** True if any eligible worker can take a unit, even one that waits there. */
  hasCapacity(): boolean {
    for (const { session } of this.#eligible) if (capacityOf(session, unitsPerCore.quick) > 0) return true;
    return false;
  }

  freeCores(): number {
    let sum = 0;
    for (const { session } of this.#eligible) sum += freeCoresOf(session);
    return sum;
  }

  /** `perCore` is the number of units per core that may be assigned. */
  pick(unit: ManagedUnit, perCore: number): WorkerSession | undefined {
    let best: { session: WorkerSession; capacity: number; level: number; health: number } | undefined;
    let equals = 1;
    for (const { session, level, health } of this.#eligible) {
      const capacity = capacityOf(session, perCore);
      if (capacity <= 0 || isExcluded(unit, session)) continue;
      const difference =
        best === undefined ? 1 : capacity - best.capacity || best.level - level || best.health - health;
      if (difference < 0) continue;
      equals = difference === 0 ? equals + 1 : 1;
      if (difference > 0 || this.#random.below(equals) === 0) best = { session, capacity, level, health };
    }
    return best?.session;
  }

  /** One line per worker, for display. */
  explain(unit: ManagedUnit | undefined, nowMs: number): readonly string[] {
    const lines: string[] = [];
    for (const session of this.#sessions.values()) {
      const excluded = unit !== undefined && isExcluded(unit, session);
      const reason = this.ineligibleReason(session, nowMs) ?? (excluded ? 'it failed this unit before' : undefined);
      const cores = `${freeCoresOf(session)} of ${session.coresTotal} cores free`;
      lines.push(`${session.name}: ${reason === undefined ? 'eligible' : `not eligible: ${reason}`} (${cores})`);
    }
    return lines;
  }
}

function capacityOf({ coresTotal, assignments }: WorkerSession, perCore: number): number {
  return Math.min(coresTotal * perCore, coresTotal + waitingMax) - assignments.size;
}

function isExcluded(unit: ManagedUnit, session: WorkerSession): boolean {
  for (const { worker, generation, outcome } of unit.attempts)
    if (worker === session.id && generation === session.generation && (outcome === 'lost' || outcome === 'failed'))
      return true;
  return false;
}
