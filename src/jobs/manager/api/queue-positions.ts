/** Computes the queue position of a waiting job, refreshed at most once a second. For display only. */
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';

const keptMs = 1_000;

export class QueuePositions {
  readonly #office: ManagerState;
  #atMs = -Infinity;
  #places = new Map<ManagedJob, number>();

  constructor(office: ManagerState) {
    this.#office = office;
  }

  /** Counted from 1. */
  of(job: ManagedJob): number {
    const { nowMs } = this.#office;
    if (nowMs >= this.#atMs + keptMs || !this.#places.has(job)) this.#count(nowMs);
    return this.#places.get(job) ?? 1;
  }

  #count(nowMs: number): void {
    this.#atMs = nowMs;
    const waiting = [...this.#office.jobs.open].filter(({ status }) => status === 'QUEUED' || status === 'SUBMITTED');
    const inOrder = waiting.toSorted((a, b) => (b.request.priority ?? 0) - (a.request.priority ?? 0));
    this.#places = new Map(inOrder.map((job, index) => [job, index + 1]));
  }
}
