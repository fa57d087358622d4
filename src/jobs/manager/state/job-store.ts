/**
 * Holds all known jobs, open and finished, within limits per submitter and in bytes. Evicts the oldest finished jobs
 * first. Never writes.
 */
import { CompactingMap, CompactingSet } from '../../../base/collections/compacting-map.ts';
import { RemusterError } from '../../../base/errors.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';
import type { ManagedJob } from '../model/managed-job.ts';

/** What lies apart of all jobs together: every manager holds it in memory. */
const bytesApartMax = 40_000_000;
/** Of the words of all open jobs. */
const wordsBytesMax = 20_000_000;
const atOnce = 100;

export class JobStore {
  readonly #jobs = new CompactingMap<string, ManagedJob>();
  readonly #open = new CompactingSet<ManagedJob>();
  readonly #openOf = new Map<string, number>();
  readonly #byKey = new CompactingMap<string, ManagedJob>();
  /** In the order in which they ended. */
  readonly #over = new CompactingSet<ManagedJob>();
  #bytesApart = 0;
  #wordsBytes = 0;
  /** Each job that was added has a later name than the one before it. */
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

  /** CAPACITY when there are too many already. */
  checkCapacity(submitter: string, wordsBytes: number): void {
    if (this.#open.size >= jobLimits.openJobsMax)
      throw new RemusterError('CAPACITY', `${jobLimits.openJobsMax} jobs are open already`);
    if ((this.#openOf.get(submitter) ?? 0) >= jobLimits.openJobsPerSubmitterMax)
      throw new RemusterError('CAPACITY', `${submitter} has ${jobLimits.openJobsPerSubmitterMax} open jobs already`);
    if (this.#wordsBytes + wordsBytes > wordsBytesMax)
      throw new RemusterError('CAPACITY', `the requests of all open jobs have ${wordsBytesMax} bytes already`);
  }

  add(job: ManagedJob): void {
    this.#isInOrder &&= job.id > this.#lastId;
    this.#lastId = job.id;
    this.#jobs.set(job.id, job);
    if (job.key !== undefined) this.#byKey.set(job.key, job);
    if (isTerminalStatus(job.status)) {
      this.#over.add(job);
      this.#bytesApart += job.outOfLineBytes;
      return;
    }
    this.#open.add(job);
    this.#bytesApart += job.outOfLineBytes;
    this.#wordsBytes += job.requestBytes;
    this.#openOf.set(job.submitter, (this.#openOf.get(job.submitter) ?? 0) + 1);
  }

  /** It is over, and that is recorded. */
  markEnded(job: ManagedJob): void {
    if (!this.#open.delete(job)) return;
    const left = (this.#openOf.get(job.submitter) ?? 1) - 1;
    if (left === 0) this.#openOf.delete(job.submitter);
    else this.#openOf.set(job.submitter, left);
    this.#over.add(job);
    this.#wordsBytes -= job.requestBytes;
  }

  /** So much more of it lies apart from now on. False: there is no room, also if all that are over were forgotten. */
  reserveOutOfLine(job: ManagedJob, bytes: number): boolean {
    let free = bytesApartMax - this.#bytesApart;
    for (const old of this.#over) {
      if (free >= bytes) break;
      free += old.outOfLineBytes;
    }
    if (free < bytes) return false;
    job.outOfLineBytes += bytes;
    this.#bytesApart += bytes;
    return true;
  }

  /**
   * The oldest that are over, if too many are: the caller removes them everywhere else. Some at a time, and so many more
   * in any case.
   */
  evictFinished(more = 0): readonly ManagedJob[] {
    const isLate = this.#over.size >= jobLimits.finishedJobsMax + atOnce;
    if (!isLate && this.#bytesApart <= bytesApartMax && more === 0) return [];
    const taken: ManagedJob[] = [];
    for (const job of this.#over) {
      const isEnough = this.#over.size <= jobLimits.finishedJobsMax && this.#bytesApart <= bytesApartMax;
      if (isEnough && taken.length >= more) break;
      this.#over.delete(job);
      this.#bytesApart -= job.outOfLineBytes;
      this.#jobs.delete(job.id);
      if (job.key !== undefined && this.#byKey.get(job.key) === job) this.#byKey.delete(job.key);
      taken.push(job);
    }
    return taken;
  }

  /** Names of jobs between these two, in order. */
  idsBetween(first: string, last: string): readonly string[] {
    const found: string[] = [];
    for (const id of this.#jobs.keys()) {
      if (id > first && id < last) found.push(id);
      else if (id > last && this.#isInOrder) return found;
    }
    return found.toSorted();
  }

  clear(): void {
    for (const part of [this.#jobs, this.#open, this.#openOf, this.#byKey, this.#over]) part.clear();
    this.#bytesApart = 0;
    this.#wordsBytes = 0;
    this.#isInOrder = true;
    this.#lastId = '';
  }
}
