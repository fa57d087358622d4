/**
 * Holds one session per worker generation: lease, cores, assignments. A lease is expired at 1.1 of its length. Never
 * selects or removes a worker itself.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { Address } from '../../../base/ports.ts';
import type { ActiveAssignment } from './managed-job.ts';

export type WorkerSession = {
  readonly id: NodeId;
  name: string;
  readonly generation: number;
  address: Address | undefined;
  coresTotal: number;
  loadLevel: string;
  draining: boolean;
  isolation: 'full' | 'weak';
  /** A report came to this leader. */
  hasReported: boolean;
  lastHeartbeatMs: number;
  readonly assignments: CompactingSet<ActiveAssignment>;
  /** It refused for want of a core, or is not registered: nothing is given before. */
  backoffUntilMs: number;
  /** A question to end something is under way. */
  stopping: boolean;
  /** Runs that have to be sent again, and when. */
  resendAtMs: number;
  resendStopAtMs: number;
};

const seatsMax = 10_000;

export class WorkerTable {
  readonly #seats = new Map<NodeId, WorkerSession>();
  readonly #leaseMs: number;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  get(id: NodeId): WorkerSession | undefined {
    return this.#seats.get(id);
  }

  values(): IterableIterator<WorkerSession> {
    return this.#seats.values();
  }

  get size(): number {
    return this.#seats.size;
  }

  isFull(): boolean {
    return this.#seats.size >= seatsMax;
  }

  /** Replaces that of an earlier life, whose runs the caller has taken care of. */
  open(id: NodeId, name: string, generation: number, nowMs: number): WorkerSession {
    const seat = createWorkerSession(id, name, generation, nowMs);
    this.#seats.set(id, seat);
    return seat;
  }

  close(seat: WorkerSession): void {
    if (this.#seats.get(seat.id) === seat) this.#seats.delete(seat.id);
  }

  clear(): void {
    this.#seats.clear();
  }

  /** It has surely stopped everything by itself, however its clock runs. */
  isLeaseExpired(seat: WorkerSession, nowMs: number): boolean {
    return nowMs >= seat.lastHeartbeatMs + 1.1 * this.#leaseMs;
  }

  /** It holds its lease and will for a while. */
  holdsLease(seat: WorkerSession, nowMs: number): boolean {
    return seat.hasReported && nowMs < seat.lastHeartbeatMs + 0.7 * this.#leaseMs;
  }
}

export function createWorkerSession(id: NodeId, name: string, generation: number, nowMs: number): WorkerSession {
  return {
    ...{ id, name, generation, address: undefined, coresTotal: 0, loadLevel: 'normal', draining: false },
    ...{
      isolation: 'full',
      hasReported: false,
      lastHeartbeatMs: nowMs,
      assignments: new CompactingSet(),
      backoffUntilMs: 0,
    },
    ...{ stopping: false, resendAtMs: Infinity, resendStopAtMs: Infinity },
  };
}

/** Cores that nobody has, as far as we know. */
export function freeCoresOf(seat: WorkerSession): number {
  return Math.max(0, seat.coresTotal - seat.assignments.size);
}
