/**
 * Group commit for all containers of one store: writes that arrive during a write share the next sync. If a group
 * fails, each member is written alone. A container has at most one write here at a time, so they can be combined in any
 * way.
 */
import { type Done, failure } from '../../base/errors.ts';
import type { Clock, RowStore, StoreRows, StoreWrite } from '../../base/ports.ts';

export type RowBatch = readonly (StoreWrite | StoreRows)[];

type Job = { readonly writes: RowBatch; readonly bytes: number; readonly done: Done<void> };

/** Half of what a store takes in one batch, because a single job may have as much as a commit may have. */
const groupBytesMax = 16 * 2 ** 20;
const jobsMax = 100_000;

export class GroupCommit {
  readonly #store: Pick<RowStore, 'write'>;
  readonly #clock: Pick<Clock, 'schedule'>;
  #waiting: Job[] = [];
  #preparing: (() => void)[] = [];
  #isBusy = false;
  #isScheduled = false;

  constructor(store: Pick<RowStore, 'write'>, clock: Pick<Clock, 'schedule'>) {
    this.#store = store;
    this.#clock = clock;
  }

  /** `run` is called before the next write begins: what it writes at once goes with that. Each container once at a time. */
  beforeWrite(run: () => void): void {
    this.#preparing.push(run);
    this.#flushSoon();
  }

  /** All of it or nothing, durable when done. */
  write(writes: RowBatch, bytes: number, done: Done<void>): void {
    if (this.#waiting.length >= jobsMax) {
      this.#clock.schedule(0, () => done(failure('CAPACITY', `more than ${jobsMax} writes wait for the disk`)));
      return;
    }
    this.#waiting.push({ writes, bytes, done });
    this.#flushSoon();
  }

  /** Nothing more will come in this turn. */
  flush(): void {
    if (this.#isBusy) return;
    this.#prepare();
    if (this.#waiting.length === 0) return;
    const jobs = this.#next();
    this.#isBusy = true;
    const [only] = jobs;
    const writes = only !== undefined && jobs.length === 1 ? only.writes : jobs.flatMap((job) => job.writes);
    this.#store.write(writes, (outcome) => {
      if (outcome.ok || jobs.length === 1) this.#ended(() => jobs.forEach(({ done }) => done(outcome)));
      else this.#alone(jobs, 0);
    });
  }

  /** In the next turn: then those who heard of the last write in this one have said what they want to write next. */
  #flushSoon(): void {
    if (this.#isBusy || this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      this.flush();
    });
  }

  #prepare(): void {
    const preparing = this.#preparing;
    this.#preparing = [];
    for (const run of preparing) run();
  }

  #next(): Job[] {
    let bytes = 0;
    let count = 0;
    for (const job of this.#waiting) {
      bytes += job.bytes;
      if (count > 0 && bytes > groupBytesMax) break;
      count += 1;
    }
    if (count < this.#waiting.length) return this.#waiting.splice(0, count);
    const all = this.#waiting;
    this.#waiting = [];
    return all;
  }

  #alone(jobs: readonly Job[], at: number): void {
    const job = jobs[at];
    if (job === undefined) return this.#ended(() => {});
    this.#store.write(job.writes, (outcome) => {
      job.done(outcome);
      this.#alone(jobs, at + 1);
    });
  }

  /**
   * The disk is kept busy: the next write begins when those who were waiting for this one have added theirs. It is
   * ordered before they hear, so what it sends to copies leaves together with the answers.
   */
  #ended(tell: () => void): void {
    this.#isBusy = false;
    this.#flushSoon();
    tell();
  }
}
