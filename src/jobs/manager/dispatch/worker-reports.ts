/**
 * Applies unit reports of workers. Only the current attempt counts; an end is applied once and acknowledged only after
 * its commit.
 */
import type { AttemptId, JobMessageOf, UnitReport } from '../../../messages/jobs.ts';
import { isTerminalStatus } from '../../job-types.ts';
import { jobKeys } from '../../job-keys.ts';
import { jobLimits } from '../../limits.ts';
import { inlineResultBytesMax } from '../../records/job-record.ts';
import { itemsText, retryText, unitText } from './incident-texts.ts';
import { countsWhenCancelled, measuredResult } from './cancelled-load.ts';
import type { JobLifecycle } from './job-lifecycle.ts';
import type { Dispatcher } from './dispatcher.ts';
import {
  type ManagedJob,
  type ActiveAssignment,
  type ManagedUnit,
  type UnitResult,
  countedAttempts,
  isWorkflowEnded,
  findUnit,
} from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { WorkerSession } from '../model/worker-table.ts';
import { mergeEncodedCounts } from '../../report/summary-codec.ts';
import { keptFailures } from '../model/kept-failures.ts';
import { retainOutput } from '../model/workflow-values.ts';

/** Errors of user code or of the request: a retry on another worker would fail too. */
const finalCodes: ReadonlySet<string> = new Set([
  'WORKFLOW_FAILED',
  'WORKFLOW_TIMEOUT',
  'BUNDLE_INVALID',
  'TOO_LARGE',
  'BAD_ARGUMENT',
  'FORBIDDEN',
]);

/** Size of all results that are being written in parts; further ends are not acknowledged and so resent. */
const storingBytesMax = 64_000_000;

export class WorkerReports {
  readonly #state: ManagerState;
  readonly #dispatcher: Dispatcher;
  readonly #lifecycle: JobLifecycle;
  #storingBytes = 0;

  constructor(state: ManagerState, dispatcher: Dispatcher, lifecycle: JobLifecycle) {
    this.#state = state;
    this.#dispatcher = dispatcher;
    this.#lifecycle = lifecycle;
  }

  clear(): void {
    this.#storingBytes = 0;
  }

  /** Calls back when all ends among the reports are recorded. */
  applyReports(
    session: WorkerSession,
    reports: readonly UnitReport[],
    done: (ack: JobMessageOf<'reportUnitsAck'>) => void,
  ): void {
    const acknowledged: AttemptId[] = [];
    const stop: AttemptId[] = [];
    let waits = 1;
    const recorded = (): void => {
      waits -= 1;
      if (waits === 0) done({ kind: 'reportUnitsAck', acknowledged, stop });
    };
    for (const report of reports) {
      const { status, attempt, fence } = report;
      const id = { job: report.job, workflow: report.workflow, unit: report.unit, attempt, fence };
      const isEnd = status !== 'started' && status !== 'progress';
      const job = this.#state.jobs.get(id.job);
      const workflow = job?.workflows[id.workflow];
      const unit = workflow === undefined ? undefined : findUnit(workflow, id.unit);
      const assignment = unit?.assignment;
      const isCurrent = assignment !== undefined && assignment.worker === session && isSame(assignment, report);
      if (isCurrent && isEnd) {
        waits += 1;
        if (this.#onEnd(assignment, report, recorded)) acknowledged.push(id);
        else waits -= 1;
      } else if (isCurrent) {
        this.#onProgress(assignment, report);
        if (assignment.stopping !== undefined) stop.push(id);
      } else if (!isEnd) stop.push(id);
      else if (unit?.state !== 'storing') {
        // A repeated end, or one of a superseded attempt: acknowledged once the state of the job is recorded.
        acknowledged.push(id);
        if (job !== undefined) {
          waits += 1;
          this.#state.commits.onceJobCommitted(job, recorded);
        }
      }
    }
    recorded();
  }

  /** The attempt was lost with its worker. */
  assignmentLost(assignment: ActiveAssignment, reason: string): void {
    const { unit, attempt, worker } = assignment;
    const { workflow } = unit;
    this.#release(assignment);
    attempt.outcome = assignment.stopping === undefined ? 'lost' : 'cancelled';
    if (assignment.stopping !== undefined) return this.#onStopped(unit);
    const { completed, failed } = unit.liveProgress ?? { completed: 0, failed: 0 };
    const counted = countedAttempts(unit);
    const effect = `${unitText(unit)} ${retryText(unit, counted)}; ${completed + failed} ${itemsText(unit)} of the lost attempt do not count`;
    this.#state.addIncident(workflow.job, 'worker.lost', worker.name, effect);
    this.#emitAttempt(assignment);
    this.#state.commits.markJob(workflow.job);
    this.#lifecycle.retryUnit(unit, 'RUNNER_KILLED', `${worker.name}: ${reason}`, counted);
  }

  /** The worker cannot run the unit. */
  assignmentFailed(assignment: ActiveAssignment, code: string, message: string): void {
    if (assignment.stopping !== undefined) return this.assignmentStopped(assignment);
    this.#release(assignment);
    assignment.attempt.outcome = 'failed';
    this.#emitAttempt(assignment);
    this.#state.commits.markUnit(assignment.unit);
    if (finalCodes.has(code)) this.#lifecycle.failUnit(assignment.unit, code, message);
    else this.#retryElsewhere(assignment, code, message);
  }

  /** An attempt that was asked to stop does not run any more. */
  assignmentStopped(assignment: ActiveAssignment): void {
    this.#release(assignment);
    if (assignment.attempt.outcome === 'running') assignment.attempt.outcome = 'cancelled';
    this.#onStopped(assignment.unit);
  }

  #onStopped(unit: ManagedUnit): void {
    const { workflow } = unit;
    if (unit.state === 'assigned' || unit.state === 'running') unit.state = 'cancelled';
    unit.liveProgress = undefined;
    // Nothing is written for a finished job.
    if (!isTerminalStatus(workflow.job.status)) this.#state.commits.markUnit(unit);
    this.#lifecycle.afterUnitStopped(workflow);
  }

  /** Frees the core; the unit has no current attempt. */
  #release(assignment: ActiveAssignment): void {
    const { unit, worker } = assignment;
    worker.assignments.delete(assignment);
    if (unit.assignment !== assignment) return;
    unit.assignment = undefined;
    unit.workflow.active -= 1;
  }

  #onProgress(assignment: ActiveAssignment, { status, completed, failed, summary }: UnitReport): void {
    if (assignment.stopping !== undefined) return;
    this.#dispatcher.markAccepted(assignment);
    const { unit } = assignment;
    if (status !== 'progress' || unit.state !== 'running') return;
    // Counts of an attempt only grow: a lower one is an older report that was overtaken.
    const { liveProgress: before } = unit;
    if (before !== undefined && completed + failed < before.completed + before.failed) return;
    unit.liveProgress = { completed, failed, summary: summary ?? before?.summary };
    this.#state.markProgress(unit.workflow);
  }

  /** False if the end cannot be applied now; the worker resends it. */
  #onEnd(assignment: ActiveAssignment, report: UnitReport, recorded: () => void): boolean {
    const { unit, attempt } = assignment;
    const { workflow } = unit;
    const { job } = workflow;
    const { commits } = this.#state;
    if (assignment.stopping !== undefined && countsWhenCancelled(unit))
      return this.#onMeasuredEnd(assignment, report, recorded);
    if (assignment.stopping !== undefined) {
      this.assignmentStopped(assignment);
      commits.onceJobCommitted(job, recorded);
      return true;
    }
    if (report.status === 'completed') return this.#onCompleted(assignment, report, recorded);
    this.#release(assignment);
    // At most once: a returned unit that has started must not run again.
    const mustNotRetry = unit.workflow.facts.maxRetries === 0 && report.durationMs !== undefined;
    const isReturned = report.status === 'returned' && !mustNotRetry;
    attempt.outcome = isReturned ? 'returned' : report.status === 'failed' ? 'failed' : 'cancelled';
    this.#emitAttempt(assignment);
    commits.markUnit(unit);
    if (isReturned) this.#lifecycle.retryUnit(unit, 'DRAINED', '', 0);
    else this.#onNotCompleted(assignment, report);
    commits.onceUnitCommitted(unit, recorded);
    return true;
  }

  /** The unit of a cancelled load test counts with what it measured. False if its summary cannot be stored now. */
  #onMeasuredEnd(assignment: ActiveAssignment, report: UnitReport, recorded: () => void): boolean {
    const { unit } = assignment;
    const { job } = unit.workflow;
    const { commits, jobs } = this.#state;
    const stop = (end: UnitResult | undefined): void => {
      if (end !== undefined) this.#keepMeasured(unit, end, report);
      this.assignmentStopped(assignment);
      commits.onceJobCommitted(job, recorded);
    };
    const end = measuredResult(report);
    const bytes = outOfLineSize(end.summary);
    if (unit.state === 'storing' || (bytes > 0 && this.#storingBytes + bytes > storingBytesMax)) return false;
    if (bytes === 0) stop(end);
    // Without room for the summary the unit counts as one that did not report.
    else if (!jobs.reserveOutOfLine(job, bytes)) stop(undefined);
    else {
      unit.state = 'storing';
      this.#storingBytes += bytes;
      this.#store(unit, { summary: end.summary, output: undefined, failures: undefined }, () => {
        this.#storingBytes -= bytes;
        if (unit.state !== 'storing') return recorded();
        stop({ ...end, summary: undefined });
      });
    }
    return true;
  }

  #keepMeasured(unit: ManagedUnit, end: UnitResult, { summary }: UnitReport): void {
    unit.state = 'cancelled';
    unit.end = end;
    const { watched } = unit.workflow;
    if (watched !== undefined) mergeEncodedCounts(watched, summary);
  }

  #onNotCompleted(assignment: ActiveAssignment, { status, code, message = '' }: UnitReport): void {
    const { unit } = assignment;
    if (status === 'failed' && code !== undefined && finalCodes.has(code))
      return this.#lifecycle.failUnit(unit, code, message);
    const cause = status === 'failed' ? 'RUNNER_KILLED' : status === 'returned' ? 'DRAINED' : 'CANCELLED';
    this.#retryElsewhere(assignment, code ?? cause, message);
  }

  /** Another worker may succeed. */
  #retryElsewhere({ unit, worker }: ActiveAssignment, code: string, message: string): void {
    const { workflow } = unit;
    const type = code === 'RUNNER_KILLED' ? 'runner.killed' : 'unit.retried';
    const counted = countedAttempts(unit);
    const effect = `${unitText(unit)} ${retryText(unit, counted)}: ${code} ${message}`;
    this.#state.addIncident(workflow.job, type, worker.name, effect);
    this.#state.commits.markJob(workflow.job);
    this.#lifecycle.retryUnit(unit, code, message, counted);
  }

  #onCompleted(assignment: ActiveAssignment, report: UnitReport, recorded: () => void): boolean {
    const { unit } = assignment;
    const { job } = unit.workflow;
    const { summary, output, completed, failed, durationMs } = report;
    const failures = keptFailures(unit.workflow, report);
    const outOfLineBytes = outOfLineSize(summary) + outOfLineSize(output) + outOfLineSize(failures?.bytes);
    if (outOfLineBytes > 0 && this.#storingBytes + outOfLineBytes > storingBytesMax) return false;
    this.#release(assignment);
    unit.workflow.failuresListed += failures?.count ?? 0;
    unit.workflow.failureSample ??= failures?.sample;
    if (unit.phase === 'whole' || unit.phase === 'work')
      this.#dispatcher.recordDuration(job.request.bundle, durationMs ?? 0);
    const end: UnitResult = {
      completed,
      failed,
      durationMs: durationMs ?? 0,
      summary: outOfLineSize(summary) === 0 ? summary : undefined,
      output: outOfLineSize(output) === 0 ? output : undefined,
      failures: outOfLineSize(failures?.bytes) === 0 ? failures?.bytes : undefined,
      summaryBytes: summary?.length ?? 0,
      outputBytes: output?.length ?? 0,
      failuresBytes: failures?.bytes.length,
    };
    if (outOfLineBytes === 0) {
      this.#finish(assignment, end, report, recorded);
      return true;
    }
    unit.state = 'storing';
    if (!this.#state.jobs.reserveOutOfLine(job, outOfLineBytes)) {
      assignment.attempt.outcome = 'failed';
      this.#lifecycle.failUnit(
        unit,
        'TOO_LARGE',
        `its results of ${outOfLineBytes} bytes do not fit: results of other jobs fill the registry`,
      );
      this.#state.commits.onceUnitCommitted(unit, recorded);
      return true;
    }
    this.#storingBytes += outOfLineBytes;
    this.#markCompleting(job);
    this.#store(unit, { summary, output, failures: failures?.bytes }, () => {
      this.#storingBytes -= outOfLineBytes;
      if (unit.state !== 'storing') return recorded();
      this.#finish(assignment, end, report, recorded);
    });
    return true;
  }

  /** Writes the parts; the record that refers to them is written after. */
  #store(
    unit: ManagedUnit,
    { summary, output, failures }: Pick<UnitReport, 'summary' | 'output' | 'failures'>,
    stored: () => void,
  ): void {
    const { workflow, number } = unit;
    const { id } = workflow.job;
    let waits = 1;
    const written = (): void => {
      waits -= 1;
      if (waits === 0) stored();
    };
    for (const [kind, bytes] of [['s', summary] as const, ['o', output] as const, ['f', failures] as const]) {
      if (bytes === undefined || outOfLineSize(bytes) === 0) continue;
      for (let part = 0; part * jobLimits.partBytesMax < bytes.length; part++) {
        waits += 1;
        const from = part * jobLimits.partBytesMax;
        const slice = bytes.subarray(from, from + jobLimits.partBytesMax);
        this.#state.commits.put(jobKeys.result(id, workflow.index, number, kind, part), slice, written);
      }
    }
    written();
  }

  #finish(assignment: ActiveAssignment, end: UnitResult, report: UnitReport, recorded: () => void): void {
    const { unit, attempt } = assignment;
    const { workflow } = unit;
    const { job } = workflow;
    const { commits } = this.#state;
    unit.liveProgress = undefined;
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING' || isWorkflowEnded(workflow) || isBroken(unit)) {
      attempt.outcome = 'cancelled';
      // Too late to count, but in a cancelled load test.
      if (countsWhenCancelled(unit)) {
        this.#keepMeasured(unit, end, report);
        commits.markUnit(unit);
      }
      unit.state = 'cancelled';
      commits.onceJobCommitted(job, recorded);
      return this.#lifecycle.afterUnitStopped(workflow);
    }
    attempt.outcome = 'completed';
    unit.state = 'done';
    unit.end = end;
    retainOutput(workflow, unit, report.output);
    if (workflow.watched !== undefined) mergeEncodedCounts(workflow.watched, report.summary);
    workflow.outputBytes += end.outputBytes;
    this.#emitAttempt(assignment);
    commits.markUnit(unit);
    if (report.found === true && workflow.facts.batch?.firstOnly === true) this.#lifecycle.markFound(unit);
    if (end.failed > 0) this.#lifecycle.stopOnFailure(workflow);
    const { jobResultBytesMax } = this.#state.options;
    if (workflow.outputBytes > jobResultBytesMax)
      this.#lifecycle.fail(
        workflow,
        'TOO_LARGE',
        `its results have more than ${jobResultBytesMax} bytes: return less, or raise jobResultBytesMax`,
      );
    this.#lifecycle.unitCompleted(unit);
    if (!isWorkflowEnded(workflow) && workflow.waiting.length > 0) this.#state.runQueue.add(workflow);
    commits.onceUnitCommitted(unit, recorded);
  }

  /** The job is COMPLETING if only results that are being written are left. */
  #markCompleting(job: ManagedJob): void {
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      if (workflow.phase === 'none' || workflow.phase === 'plan' || workflow.active > 0 || workflow.waiting.length > 0)
        return;
      if (workflow.phase === 'work' && workflow.facts.hasTeardown) return;
    }
    if (job.status !== 'DISPATCHING' && job.status !== 'RUNNING') return;
    job.status = 'COMPLETING';
    this.#state.commits.markJob(job);
  }

  #emitAttempt({ unit, attempt }: ActiveAssignment): void {
    // Only attempts without success are events; the others are in the record of the job.
    if (attempt.outcome === 'completed') return;
    const { workflow } = unit;
    this.#state.emit({
      ...{ kind: 'workflow.attempt', job: workflow.job.id, workflow: workflow.facts.name, unit: unit.number },
      ...{ attempt: attempt.attempt, worker: attempt.name, outcome: attempt.outcome },
    });
  }
}

/** The size of a result that is stored out of line, else 0. */
function outOfLineSize(bytes: Uint8Array | undefined): number {
  return bytes === undefined || bytes.length <= inlineResultBytesMax ? 0 : bytes.length;
}

function isSame({ attempt }: ActiveAssignment, report: UnitReport): boolean {
  return attempt.attempt === report.attempt && attempt.fence === report.fence;
}

function isBroken({ workflow, phase }: ManagedUnit): boolean {
  return phase !== 'finish' && (workflow.errorCode !== undefined || workflow.foundUnit !== undefined);
}
