/**
 * Owns all known jobs, open and finished, within limits per submitter and in bytes. Evicts the oldest finished jobs
 * first, never an open one. Never writes to the registry.
 */
import { CompactingMap, CompactingSet } from '../../../base/collections/compacting-map.ts';
import { RemusterError } from '../../../base/errors.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** Out-of-line results of all jobs together: every manager holds them in memory. */
const outOfLineBytesMax = 40_000_000;
/** Requests of all open jobs together. */
export const openRequestsBytesMax = 20_000_000;
/** Finished jobs beyond the limit before an eviction starts, so that one eviction takes several. */
const evictionBatch = 100;

export class JobStore {
  readonly #jobs = new CompactingMap<string, ManagedJob>();
  readonly #open = new CompactingSet<ManagedJob>();
  readonly #openOf = new Map<string, number>();
  readonly #byKey = new CompactingMap<string, ManagedJob>();
  /** In the order of their end. */
  readonly #finished = new CompactingSet<ManagedJob>();
  #outOfLineBytes = 0;
  #requestBytes = 0;
  /** Jobs were added in the order of their ids. */
  #isInOrder = true;
  #lastId = '';

  get(id: string): ManagedJob | undefined {
    return this.#jobs.get(id);
  }

  byIdempotencyKey(key: string): ManagedJob | undefined {
    return this.#byKey.get(key);
  }

  values(): IterableIterator<ManagedJob> {
    return this.#jobs.values();
  }

  get open(): Iterable<ManagedJob> & { readonly size: number } {
    return this.#open;
  }

  get size(): number {
    return this.#jobs.size;
  }

  /** Throws CAPACITY beyond a limit. */
  checkCapacity(submitter: string, requestBytes: number): void {
    if (this.#open.size >= jobLimits.openJobsMax)
      throw new RemusterError('CAPACITY', `${jobLimits.openJobsMax} jobs are open: wait until some end`);
    if ((this.#openOf.get(submitter) ?? 0) >= jobLimits.openJobsPerSubmitterMax)
      throw new RemusterError(
        'CAPACITY',
        `${submitter} has ${jobLimits.openJobsPerSubmitterMax} open jobs: wait until some end`,
      );
    if (this.#requestBytes + requestBytes > openRequestsBytesMax)
      throw new RemusterError(
        'CAPACITY',
        `the requests of all open jobs have ${openRequestsBytesMax} bytes: wait until some end`,
      );
  }

  add(job: ManagedJob): void {
    this.#isInOrder &&= job.id > this.#lastId;
    this.#lastId = job.id;
    this.#jobs.set(job.id, job);
    if (job.key !== undefined) this.#byKey.set(job.key, job);
    if (isTerminalStatus(job.status)) {
      this.#finished.add(job);
      this.#outOfLineBytes += job.outOfLineBytes;
      return;
    }
    this.#open.add(job);
    this.#outOfLineBytes += job.outOfLineBytes;
    this.#requestBytes += job.requestBytes;
    this.#openOf.set(job.submitter, (this.#openOf.get(job.submitter) ?? 0) + 1);
  }

  /** The end of the job is recorded. */
  markEnded(job: ManagedJob): void {
    if (!this.#open.delete(job)) return;
    const left = (this.#openOf.get(job.submitter) ?? 1) - 1;
    if (left === 0) this.#openOf.delete(job.submitter);
    else this.#openOf.set(job.submitter, left);
    this.#finished.add(job);
    this.#requestBytes -= job.requestBytes;
  }

  /** Reserves space for out-of-line results. False if it does not fit even after evicting every finished job. */
  reserveOutOfLine(job: ManagedJob, bytes: number): boolean {
    let free = outOfLineBytesMax - this.#outOfLineBytes;
    for (const old of this.#finished) {
      if (free >= bytes) break;
      free += old.outOfLineBytes;
    }
    if (free < bytes) return false;
    job.outOfLineBytes += bytes;
    this.#outOfLineBytes += bytes;
    return true;
  }

  /**
   * Removes the oldest finished jobs beyond the limits, and at least `more` if there are that many; the caller deletes
   * their records.
   */
  evictFinished(more = 0): readonly ManagedJob[] {
    const isOverLimit = this.#finished.size >= jobLimits.finishedJobsMax + evictionBatch;
    if (!isOverLimit && this.#outOfLineBytes <= outOfLineBytesMax && more === 0) return [];
    const evicted: ManagedJob[] = [];
    for (const job of this.#finished) {
      const isEnough = this.#finished.size <= jobLimits.finishedJobsMax && this.#outOfLineBytes <= outOfLineBytesMax;
      if (isEnough && evicted.length >= more) break;
      this.#finished.delete(job);
      this.#outOfLineBytes -= job.outOfLineBytes;
      this.#jobs.delete(job.id);
      if (job.key !== undefined && this.#byKey.get(job.key) === job) this.#byKey.delete(job.key);
      evicted.push(job);
    }
    return evicted;
  }

  /** Ids of jobs between these two, in order. */
  idsBetween(first: string, last: string): readonly string[] {
    const found: string[] = [];
    for (const id of this.#jobs.keys()) {
      if (id > first && id < last) found.push(id);
      else if (id > last && this.#isInOrder) return found;
    }
    return found.toSorted();
  }

  clear(): void {
    for (const part of [this.#jobs, this.#open, this.#openOf, this.#byKey, this.#finished]) part.clear();
    this.#outOfLineBytes = 0;
    this.#requestBytes = 0;
    this.#isInOrder = true;
    this.#lastId = '';
  }
}
