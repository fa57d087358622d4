/**
 * Restores the state of the job manager after a leader change: claim, read, rebuild. Reports a failure; the caller
 * starts again from the beginning. Writes only the claim.
 */
import type { Outcome } from '../../../base/errors.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { KeyRange, RangeResult, RegistryTransaction, TransactionResult } from '../../../base/registry.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { RestoreState, RestoreOutputs, type RestoreRead } from './restore-reader.ts';
import { type ManagedJob, firstJobVersion } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import { missingOutputs, restoreJob, restoreValues } from './job-restore.ts';
import { type WorkerSession, createWorkerSession } from '../model/worker-table.ts';
export type LeaderTakeoverPorts = {
  readonly read: (range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void) => void;
  readonly transact: (transaction: RegistryTransaction, then: (outcome: Outcome<TransactionResult>) => void) => void;
  readonly failed: () => void;
  /** The state is restored. */
  readonly ready: (jobs: readonly ManagedJob[], restored: Pick<RestoreState, 'bundles' | 'schedules'>) => void;
};

export class LeaderTakeover {
  readonly #state: ManagerState;
  readonly #ports: LeaderTakeoverPorts;
  #records: RestoreState | undefined;
  #outputs: RestoreOutputs | undefined;
  #jobs: ManagedJob[] = [];

  constructor(state: ManagerState, ports: LeaderTakeoverPorts) {
    this.#state = state;
    this.#ports = ports;
  }

  clear(): void {
    this.#records = undefined;
    this.#outputs = undefined;
    this.#jobs = [];
  }

  /** Starts, or starts again from the beginning. */
  begin(fence: Uint8Array): void {
    this.clear();
    this.#records = new RestoreState(fence);
    this.#next();
  }

  #next(): void {
    const records = this.#records;
    if (records === undefined) return;
    const next = (this.#outputs ?? records).next();
    if (next !== undefined) return this.#read(next, records);
    if (this.#outputs === undefined) {
      this.#restore(records);
      this.#outputs = new RestoreOutputs(this.#jobs, missingOutputs);
      return this.#next();
    }
    const jobs = this.#jobs;
    for (const job of jobs) restoreValues(job);
    this.clear();
    this.#ports.ready(jobs, records);
  }

  #read(next: RestoreRead, records: RestoreState): void {
    const isStale = (): boolean => this.#records !== records;
    if (next.kind === 'transact') {
      this.#ports.transact(next.transaction, (outcome) => {
        if (isStale()) return;
        if (!outcome.ok || !outcome.value.succeeded) return this.#ports.failed();
        records.claimed();
        this.#next();
      });
      return;
    }
    this.#ports.read(next.range, next.limit, (outcome) => {
      if (isStale()) return;
      if (!outcome.ok) return this.#ports.failed();
      const { entries, more } = outcome.value;
      (this.#outputs ?? records).read(entries, more);
      this.#next();
    });
  }

  #restore(records: RestoreState): void {
    const { nowMs, options, term, jobs, workers, requests } = this.#state;
    jobs.clear();
    workers.clear();
    this.#state.clockOffsetMs = records.clockMs - nowMs;
    const context = {
      ...{ nowMs, managerClockMs: this.#state.managerClockMs, jobTimeoutMs: options.jobTimeoutMs, requests },
      sessionOf: (id: NodeId, name: string, generation: number) => this.#sessionOf(id, name, generation),
    };
    for (const recorded of records.recorded()) {
      try {
        const job = restoreJob(recorded, context);
        job.version = firstJobVersion(term);
        this.#jobs.push(job);
      } catch {
        // A record that this version cannot interpret stays stored, so that another version can use it.
      }
    }
    const finished = this.#jobs
      .filter(({ status }) => isTerminalStatus(status))
      .toSorted((a, b) => (a.endedMs ?? 0) - (b.endedMs ?? 0));
    for (const job of finished) jobs.add(job);
    for (const job of this.#jobs) if (!isTerminalStatus(job.status)) jobs.add(job);
  }

  /** The session of a superseded generation is not in the worker table: its assignments are lost. */
  #sessionOf(id: NodeId, name: string, generation: number): WorkerSession {
    const { workers, nowMs } = this.#state;
    const session = workers.get(id);
    if (session?.generation === generation) return session;
    if (session === undefined || session.generation < generation) return workers.open(id, name, generation, nowMs);
    return createWorkerSession(id, name, generation, nowMs);
  }
}
