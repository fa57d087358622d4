/** The place of a job among those that wait. Counted anew at most once a second: it is for people. */
import type { Job } from './model.ts';
import type { Office } from './office.ts';

const keptMs = 1_000;

export class Positions {
  readonly #office: Office;
  #atMs = -Infinity;
  #places = new Map<Job, number>();

  constructor(office: Office) {
    this.#office = office;
  }

  /** Counted from 1. */
  of(job: Job): number {
    const { nowMs } = this.#office;
    if (nowMs >= this.#atMs + keptMs || !this.#places.has(job)) this.#count(nowMs);
    return this.#places.get(job) ?? 1;
  }

  #count(nowMs: number): void {
    this.#atMs = nowMs;
    const waiting = [...this.#office.book.open].filter(({ status }) => status === 'QUEUED' || status === 'SUBMITTED');
    const inOrder = waiting.toSorted((a, b) => (b.request.priority ?? 0) - (a.request.priority ?? 0));
    this.#places = new Map(inOrder.map((job, index) => [job, index + 1]));
  }
}
