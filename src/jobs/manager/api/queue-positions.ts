/** Owns the queue positions of waiting jobs, computed at most once a second. For display only: decides nothing. */
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';

const cachedMs = 1_000;

export class QueuePositions {
  readonly #state: ManagerState;
  #atMs = -Infinity;
  #positions = new Map<ManagedJob, number>();

  constructor(state: ManagerState) {
    this.#state = state;
  }

  /** From 1. */
  of(job: ManagedJob): number {
    const { nowMs } = this.#state;
    if (nowMs >= this.#atMs + cachedMs || !this.#positions.has(job)) this.#compute(nowMs);
    return this.#positions.get(job) ?? 1;
  }

  #compute(nowMs: number): void {
    this.#atMs = nowMs;
    const waiting = [...this.#state.jobs.open].filter(({ status }) => status === 'QUEUED' || status === 'SUBMITTED');
    const inOrder = waiting.toSorted((a, b) => (b.request.priority ?? 0) - (a.request.priority ?? 0));
    this.#positions = new Map(inOrder.map((job, index) => [job, index + 1]));
  }
}
