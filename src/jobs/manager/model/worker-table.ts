/**
 * Owns one session per worker: generation, lease, cores, assignments. A lease counts as expired only at 1.1 of its
 * length, when the worker has surely stopped its units. Never selects or removes a worker itself.
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
  /** This leader got a heartbeat. */
  hasReported: boolean;
  lastHeartbeatMs: number;
  readonly assignments: CompactingSet<ActiveAssignment>;
  /** No assignment before this time: the worker refused a unit or is not registered. */
  backoffUntilMs: number;
  /** A stop request is in flight. */
  stopping: boolean;
  /** When unanswered assignments and stop requests are due. */
  resendAtMs: number;
  resendStopAtMs: number;
};

const workersMax = 10_000;

export class WorkerTable {
  readonly #sessions = new Map<NodeId, WorkerSession>();
  readonly #leaseMs: number;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  get(id: NodeId): WorkerSession | undefined {
    return this.#sessions.get(id);
  }

  values(): IterableIterator<WorkerSession> {
    return this.#sessions.values();
  }

  get size(): number {
    return this.#sessions.size;
  }

  isFull(): boolean {
    return this.#sessions.size >= workersMax;
  }

  /** Replaces the session of an earlier generation, whose assignments the caller has handled. */
  open(id: NodeId, name: string, generation: number, nowMs: number): WorkerSession {
    const session = createWorkerSession(id, name, generation, nowMs);
    this.#sessions.set(id, session);
    return session;
  }

  close(session: WorkerSession): void {
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  clear(): void {
    this.#sessions.clear();
  }

  /** The worker has surely stopped its units by itself, even if its clock drifts. */
  isLeaseExpired(session: WorkerSession, nowMs: number): boolean {
    return nowMs >= session.lastHeartbeatMs + 1.1 * this.#leaseMs;
  }

  /** The worker holds its lease and has time to start a unit. */
  holdsLease(session: WorkerSession, nowMs: number): boolean {
    return session.hasReported && nowMs < session.lastHeartbeatMs + 0.7 * this.#leaseMs;
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

/** Cores without an assignment. */
export function freeCoresOf(session: WorkerSession): number {
  return Math.max(0, session.coresTotal - session.assignments.size);
}
