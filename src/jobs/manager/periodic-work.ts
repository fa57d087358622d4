/**
 * Runs the periodic work of the job manager on one timer: deadlines, worker leases, resends, start times, watchers,
 * retention. Decides nothing itself: each part does what is due.
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
  readonly dispatcher: Dispatcher;
  readonly stopper: UnitStopper;
  readonly lifecycle: JobLifecycle;
  readonly heartbeats: WorkerHeartbeats;
  readonly watchers: JobWatchers;
  readonly bundles: BundleCatalog;
  readonly schedules: Schedules;
};

const tickMs = 100;
const idleTickMs = 500;
const deadlinesMs = 500;
const clockMs = 1_000;

export class PeriodicWork {
  readonly #state: ManagerState;
  readonly #parts: PeriodicWorkParts;
  #deadlinesAtMs = 0;
  #clockRecordedMs = 0;
  #resend: CommitBatch | undefined;
  /** Jobs whose status is recorded with the next tick, unless another commit of the job records it before. */
  #deferred: ManagedJob[] = [];

  constructor(state: ManagerState, parts: PeriodicWorkParts) {
    this.#state = state;
    this.#parts = parts;
  }

  begin(): void {
    this.#deadlinesAtMs = 0;
    this.#clockRecordedMs = this.#state.nowMs;
  }

  clear(): void {
    this.#resend = undefined;
    this.#deferred = [];
  }

  /** A commit is sent, and with it the manager clock. */
  clockRecorded(): void {
    this.#clockRecordedMs = this.#state.nowMs;
  }

  /** The outcome of the commit is unknown; executing it twice has the same effect as once. */
  resend(batch: CommitBatch): void {
    this.#resend = batch;
  }

  tick(): void {
    const { effects, nowMs, workers, jobs, commits } = this.#state;
    const { dispatcher, stopper, heartbeats, watchers, bundles, schedules } = this.#parts;
    if (this.#resend !== undefined) {
      effects.push({ kind: 'transact', id: this.#resend.id, transaction: this.#resend.transaction });
      this.#resend = undefined;
    }
    for (const session of workers.values()) {
      if (workers.isLeaseExpired(session, nowMs)) heartbeats.removeWorker(session, 'its lease expired');
      else {
        dispatcher.resendUnanswered(session);
        stopper.sendTo(session);
      }
    }
    this.#recordDeferred();
    deleteOldJobs(this.#state);
    if (nowMs >= this.#deadlinesAtMs) this.#deadlines();
    watchers.tick(nowMs);
    schedules.tick();
    bundles.sweep(schedules.requests());
    const isBusy = jobs.open.size > 0 || !watchers.isEmpty;
    if (jobs.open.size > 0 && nowMs >= this.#clockRecordedMs + clockMs) commits.recordClock();
    effects.push({ kind: 'schedule', atMs: nowMs + (isBusy ? tickMs : idleTickMs), timer: 'tick', key: 'tick' });
  }

  #recordDeferred(): void {
    const { deferredStatus, commits } = this.#state;
    for (const job of this.#deferred)
      if (job.status !== job.recordedStatus && !isTerminalStatus(job.status)) commits.markJob(job);
    this.#deferred = [...deferredStatus];
    deferredStatus.clear();
  }

  #deadlines(): void {
    const { jobs, nowMs, managerClockMs, wallMs } = this.#state;
    const { lifecycle } = this.#parts;
    this.#deadlinesAtMs = nowMs + deadlinesMs;
    for (const job of jobs.open) {
      if (isTerminalStatus(job.status)) continue;
      if (job.status === 'SUBMITTED' && job.startAtMs !== undefined) {
        if (job.startAtMs <= wallMs) lifecycle.begin(job);
        continue;
      }
      if (nowMs >= job.deadlineMs) {
        lifecycle.expireJob(job);
        continue;
      }
      if (job.status === 'CANCELLING') continue;
      for (const workflow of job.workflows) {
        const { startedMs, facts } = workflow;
        const isLate = startedMs !== undefined && managerClockMs >= startedMs + facts.timeoutMs;
        if (isLate && !isWorkflowEnded(workflow) && (workflow.errorCode === undefined || workflow.phase === 'finish'))
          lifecycle.expireWorkflow(workflow);
      }
    }
  }
}
