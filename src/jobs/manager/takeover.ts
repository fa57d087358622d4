/**
 * How a new leader gets its books: it claims them, reads them, and makes jobs in memory of what it read. When something
 * fails it begins anew a little later. It changes nothing but the claim.
 */
import type { Outcome } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { KeyRange, RangeResult, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { isOver } from '../job-words.ts';
import { Loading, Thawing, type Wanted } from './loading.ts';
import type { Job } from './model.ts';
import type { Office } from './office.ts';
import { missingOutputs, restoreJob, restoreValues } from './restoring.ts';
import { type Seat, newSeat } from './seats.ts';
import { Watching } from './watching.ts';

export type TakeoverPorts = {
  readonly read: (range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void) => void;
  readonly transact: (transaction: RegistryTransaction, then: (outcome: Outcome<TransactionResult>) => void) => void;
  readonly failed: () => void;
  /** Everything is in the books. */
  readonly ready: (jobs: readonly Job[], loaded: Pick<Loading, 'bundles' | 'schedules'>) => void;
};

export class Takeover {
  readonly #office: Office;
  readonly #ports: TakeoverPorts;
  #loading: Loading | undefined;
  #thawing: Thawing | undefined;
  #jobs: Job[] = [];

  constructor(office: Office, ports: TakeoverPorts) {
    this.#office = office;
    this.#ports = ports;
  }

  clear(): void {
    this.#loading = undefined;
    this.#thawing = undefined;
    this.#jobs = [];
  }

  /** From the beginning, also again. */
  begin(fence: Uint8Array): void {
    this.clear();
    this.#loading = new Loading(fence);
    this.#next();
  }

  #next(): void {
    const loading = this.#loading;
    if (loading === undefined) return;
    const wanted = (this.#thawing ?? loading).next();
    if (wanted !== undefined) return this.#want(wanted, loading);
    if (this.#thawing === undefined) {
      this.#restore(loading);
      this.#thawing = new Thawing(this.#jobs, missingOutputs);
      return this.#next();
    }
    const jobs = this.#jobs;
    for (const job of jobs) restoreValues(job);
    this.clear();
    this.#ports.ready(jobs, loading);
  }

  #want(wanted: Wanted, loading: Loading): void {
    const isStale = (): boolean => this.#loading !== loading;
    if (wanted.kind === 'transact') {
      this.#ports.transact(wanted.transaction, (outcome) => {
        if (isStale()) return;
        if (!outcome.ok || !outcome.value.succeeded) return this.#ports.failed();
        loading.claimed();
        this.#next();
      });
      return;
    }
    this.#ports.read(wanted.range, wanted.limit, (outcome) => {
      if (isStale()) return;
      if (!outcome.ok) return this.#ports.failed();
      const { entries, more } = outcome.value;
      (this.#thawing ?? loading).read(entries, more);
      this.#next();
    });
  }

  #restore(loading: Loading): void {
    const { nowMs, options, term, book, seats, requests } = this.#office;
    book.clear();
    seats.clear();
    this.#office.clockOffsetMs = loading.clockMs - nowMs;
    const around = {
      ...{ nowMs, managerMs: this.#office.managerMs, jobTimeoutMs: options.jobTimeoutMs, requests },
      seatOf: (id: NodeId, name: string, generation: number) => this.#seatOf(id, name, generation),
    };
    for (const recorded of loading.recorded()) {
      try {
        const job = restoreJob(recorded, around);
        job.version = Watching.firstVersion(term);
        this.#jobs.push(job);
      } catch {
        // A later version wrote what this one does not understand: it stays as it is.
      }
    }
    const over = this.#jobs
      .filter(({ status }) => isOver(status))
      .toSorted((a, b) => (a.endedMs ?? 0) - (b.endedMs ?? 0));
    for (const job of over) book.add(job);
    for (const job of this.#jobs) if (!isOver(job.status)) book.add(job);
  }

  /** That of a life which a later one has ended is not in the books: what it had is lost. */
  #seatOf(id: NodeId, name: string, generation: number): Seat {
    const { seats, nowMs } = this.#office;
    const seat = seats.get(id);
    if (seat?.generation === generation) return seat;
    if (seat === undefined || seat.generation < generation) return seats.open(id, name, generation, nowMs);
    return newSeat(id, name, generation, nowMs);
  }
}
