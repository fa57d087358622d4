/**
 * Runs the periodic work of the manager on one timer: deadlines, worker leases, resends, start times, watchers,
 * retention.
 */
import { isTerminalStatus } from '../job-types.ts';
import type { BundleCatalog } from './api/bundle-catalog.ts';
import type { JobLifecycle } from './dispatch/job-lifecycle.ts';
import { deleteOldJobs } from './state/retention.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { CommitBatch } from './state/commit-batcher.ts';
import { type ManagedJob, isWorkflowEnded } from './model/managed-job.ts';
import type { ManagerState } from './state/manager-state.ts';
import type { Schedules } from './api/schedules.ts';
import type { UnitStopper } from './dispatch/unit-stopper.ts';
import type { JobWatchers } from './api/job-watchers.ts';
import type { WorkerHeartbeats } from './dispatch/worker-heartbeats.ts';

export type PeriodicWorkParts = {
  readonly giving: Dispatcher;
  readonly stopping: UnitStopper;
  readonly flow: JobLifecycle;
  readonly workers: WorkerHeartbeats;
  readonly watching: JobWatchers;
  readonly bundles: BundleCatalog;
  readonly schedules: Schedules;
};

const tickMs = 100;
const idleTickMs = 500;
const deadlinesMs = 500;
const clockMs = 1_000;

export class PeriodicWork {
  readonly #office: ManagerState;
  readonly #parts: PeriodicWorkParts;
  #deadlinesAtMs = 0;
  #recordedMs = 0;
  #again: CommitBatch | undefined;
  /** Those whose status is recorded with the next round, unless something else is recorded of them before. */
  #soft: ManagedJob[] = [];

  constructor(office: ManagerState, parts: PeriodicWorkParts) {
    this.#office = office;
    this.#parts = parts;
  }

  begin(): void {
    this.#deadlinesAtMs = 0;
    this.#recordedMs = this.#office.nowMs;
  }

  clear(): void {
    this.#again = undefined;
    this.#soft = [];
  }

  /** Something is being recorded, and with it the time. */
  clockRecorded(): void {
    this.#recordedMs = this.#office.nowMs;
  }

  /** Nobody knows whether it was executed. It says the same a second time. */
  resend(flight: CommitBatch): void {
    this.#again = flight;
  }

  tick(): void {
    const { effects, nowMs, workers: seats, jobs, commits } = this.#office;
    const { giving, stopping, workers, watching, bundles, schedules } = this.#parts;
    if (this.#again !== undefined) {
      effects.push({ kind: 'transact', id: this.#again.id, transaction: this.#again.transaction });
      this.#again = undefined;
    }
    for (const seat of seats.values()) {
      if (seats.isLeaseExpired(seat, nowMs)) workers.removeWorker(seat, 'it was not heard for its lease');
      else {
        giving.resendUnanswered(seat);
        stopping.sendTo(seat);
      }
    }
    this.#recordSoft();
    deleteOldJobs(this.#office);
    if (nowMs >= this.#deadlinesAtMs) this.#deadlines();
    watching.tick(nowMs);
    schedules.tick();
    bundles.sweep(schedules.requests());
    const isBusy = jobs.open.size > 0 || !watching.isEmpty;
    if (jobs.open.size > 0 && nowMs >= this.#recordedMs + clockMs) commits.recordClock();
    effects.push({ kind: 'schedule', atMs: nowMs + (isBusy ? tickMs : idleTickMs), timer: 'tick', key: 'tick' });
  }

  #recordSoft(): void {
    const { deferredStatus, commits } = this.#office;
    for (const job of this.#soft)
      if (job.status !== job.recordedStatus && !isTerminalStatus(job.status)) commits.markJob(job);
    this.#soft = [...deferredStatus];
    deferredStatus.clear();
  }

  #deadlines(): void {
    const { jobs, nowMs, managerClockMs, wallMs } = this.#office;
    const { flow } = this.#parts;
    this.#deadlinesAtMs = nowMs + deadlinesMs;
    for (const job of jobs.open) {
      if (isTerminalStatus(job.status)) continue;
      if (job.status === 'SUBMITTED' && job.startAtMs !== undefined) {
        if (job.startAtMs <= wallMs) flow.begin(job);
        continue;
      }
      if (nowMs >= job.deadlineMs) {
        flow.expireJob(job);
        continue;
      }
      if (job.status === 'CANCELLING') continue;
      for (const workflow of job.workflows) {
        const { startedMs, facts } = workflow;
        const isLate = startedMs !== undefined && managerClockMs >= startedMs + facts.timeoutMs;
        if (isLate && !isWorkflowEnded(workflow) && (workflow.errorCode === undefined || workflow.phase === 'finish'))
          flow.expireWorkflow(workflow);
      }
    }
  }
}
