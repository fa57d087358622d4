/**
 * Restores the manager's state after a leader change: claim, read, rebuild. Retries from the start on failure. Writes
 * only the claim.
 */
import type { Outcome } from '../../../base/errors.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { KeyRange, RangeResult, RegistryTransaction, TransactionResult } from '../../../base/registry.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { RestoreState, RestoreOutputs, type RestoreRead } from './restore-reader.ts';
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import { missingOutputs, restoreJob, restoreValues } from './job-restore.ts';
import { type WorkerSession, createWorkerSession } from '../model/worker-table.ts';
import { JobWatchers } from '../api/job-watchers.ts';

export type LeaderTakeoverPorts = {
  readonly read: (range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void) => void;
  readonly transact: (transaction: RegistryTransaction, then: (outcome: Outcome<TransactionResult>) => void) => void;
  readonly failed: () => void;
  /** Everything is in the books. */
  readonly ready: (jobs: readonly ManagedJob[], loaded: Pick<RestoreState, 'bundles' | 'schedules'>) => void;
};

export class LeaderTakeover {
  readonly #office: ManagerState;
  readonly #ports: LeaderTakeoverPorts;
  #loading: RestoreState | undefined;
  #thawing: RestoreOutputs | undefined;
  #jobs: ManagedJob[] = [];

  constructor(office: ManagerState, ports: LeaderTakeoverPorts) {
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
    this.#loading = new RestoreState(fence);
    this.#next();
  }

  #next(): void {
    const loading = this.#loading;
    if (loading === undefined) return;
    const wanted = (this.#thawing ?? loading).next();
    if (wanted !== undefined) return this.#want(wanted, loading);
    if (this.#thawing === undefined) {
      this.#restore(loading);
      this.#thawing = new RestoreOutputs(this.#jobs, missingOutputs);
      return this.#next();
    }
    const jobs = this.#jobs;
    for (const job of jobs) restoreValues(job);
    this.clear();
    this.#ports.ready(jobs, loading);
  }

  #want(wanted: RestoreRead, loading: RestoreState): void {
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

  #restore(loading: RestoreState): void {
    const { nowMs, options, term, jobs, workers, requests } = this.#office;
    jobs.clear();
    workers.clear();
    this.#office.clockOffsetMs = loading.clockMs - nowMs;
    const around = {
      ...{ nowMs, managerMs: this.#office.managerClockMs, jobTimeoutMs: options.jobTimeoutMs, requests },
      sessionOf: (id: NodeId, name: string, generation: number) => this.#seatOf(id, name, generation),
    };
    for (const recorded of loading.recorded()) {
      try {
        const job = restoreJob(recorded, around);
        job.version = JobWatchers.firstVersion(term);
        this.#jobs.push(job);
      } catch {
        // A record that cannot be read stays as it is: removing what is not understood would lose it.
      }
    }
    const over = this.#jobs
      .filter(({ status }) => isTerminalStatus(status))
      .toSorted((a, b) => (a.endedMs ?? 0) - (b.endedMs ?? 0));
    for (const job of over) jobs.add(job);
    for (const job of this.#jobs) if (!isTerminalStatus(job.status)) jobs.add(job);
  }

  /** That of a life which a later one has ended is not in the books: what it had is lost. */
  #seatOf(id: NodeId, name: string, generation: number): WorkerSession {
    const { workers, nowMs } = this.#office;
    const seat = workers.get(id);
    if (seat?.generation === generation) return seat;
    if (seat === undefined || seat.generation < generation) return workers.open(id, name, generation, nowMs);
    return createWorkerSession(id, name, generation, nowMs);
  }
}
