/**
 * Drives a job through its phases to its end: completion, failure, timeout, cancel, early success. Statuses only move
 * forward. Decides from recorded facts, so the next leader decides the same; never sends to workers itself.
 */
import { isRemusterError } from '../../../base/errors.ts';
import { batchEnd } from '../../batch-end.ts';
import { type JobStatus, type WorkflowStatus, isSuccess, isTerminalStatus } from '../../job-types.ts';
import { truncateText } from '../submission/field-checks.ts';
import type { Dispatcher } from './dispatcher.ts';
import {
  type ManagedJob,
  type ActiveAssignment,
  type StopReason,
  type ManagedUnit,
  type ManagedWorkflow,
  isWorkflowEnded,
  itemCountsOf,
  allUnits,
} from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { UnitStopper } from './unit-stopper.ts';
import { createPhaseUnits, firstPhaseOf, currentUnits } from '../model/unit-split.ts';
import { parsePlanOutput, workflowValue } from '../model/workflow-values.ts';

const messageLengthMax = 1_000;

export class JobLifecycle {
  readonly #state: ManagerState;
  readonly #dispatcher: Dispatcher;
  readonly #stopper: UnitStopper;
  readonly #ended: (job: ManagedJob) => void;

  /** `ended` is called when the end of a job is recorded. */
  constructor(state: ManagerState, dispatcher: Dispatcher, stopper: UnitStopper, ended: (job: ManagedJob) => void) {
    this.#state = state;
    this.#dispatcher = dispatcher;
    this.#stopper = stopper;
    this.#ended = ended;
  }

  /** The job waits for workers from now on. */
  begin(job: ManagedJob): void {
    const { nowMs, commits, options } = this.#state;
    job.status = 'QUEUED';
    job.deadlineMs = nowMs + (job.request.timeoutMs ?? options.jobTimeoutMs);
    commits.markJob(job);
    for (const workflow of job.workflows) this.startIfReady(workflow);
  }

  /** Starts a workflow if every workflow before it is COMPLETED or PARTIAL. */
  startIfReady(workflow: ManagedWorkflow): void {
    const { facts, job } = workflow;
    if (workflow.phase !== 'none' || isWorkflowEnded(workflow)) return;
    if (facts.after.length === 0) return this.#beginPhase(workflow, firstPhaseOf(workflow));
    const before = job.workflows.filter((one) => facts.after.includes(one.facts.name));
    if (before.some(({ status }) => status === 'FAILED' || status === 'CANCELLED')) {
      this.#setEnd(workflow, 'CANCELLED');
      this.#state.commits.markJob(job);
      return this.#onWorkflowEnded(workflow);
    }
    if (before.every(({ status }) => isSuccess(status))) this.#beginPhase(workflow, firstPhaseOf(workflow));
  }

  /** A unit is done; its result is committed with what follows. */
  unitCompleted(unit: ManagedUnit): void {
    const { workflow } = unit;
    this.#state.markProgress(workflow);
    if (unit.phase === 'plan') return this.#onPlanned(workflow, unit);
    if (unit.phase === 'finish') return this.#conclude(workflow);
    workflow.done += 1;
    this.advance(workflow);
  }

  /** Begins the next phase or ends the workflow if its units allow it. */
  advance(workflow: ManagedWorkflow): void {
    if (isWorkflowEnded(workflow) || workflow.phase === 'none' || workflow.phase === 'finish') return;
    const isBroken = workflow.errorCode !== undefined || workflow.foundUnit !== undefined;
    const isDone = isBroken ? workflow.active === 0 : isWorkDone(workflow);
    if (!isDone || isTerminalStatus(workflow.job.status)) return;
    workflow.value = workflow.errorCode === undefined ? workflowValue(workflow) : undefined;
    // No teardown without setup, after `whole`, which includes it, or after the timeout.
    const isLate = workflow.errorCode === 'WORKFLOW_TIMEOUT';
    if (workflow.facts.hasTeardown && workflow.phase === 'work' && !isLate) this.#beginPhase(workflow, 'finish');
    else this.#conclude(workflow);
  }

  /** `onItemError: 'stop'`: the first known failed item ends the workflow. */
  stopOnFailure(workflow: ManagedWorkflow): void {
    if (workflow.facts.batch?.onItemError !== 'stop' || workflow.foundUnit !== undefined) return;
    if (itemCountsOf(workflow, false).failed === 0 || workflow.phase === 'finish') return;
    this.fail(workflow, 'WORKFLOW_FAILED', `stopped after the first failed item${sampleText(workflow)}`);
  }

  /** The unit found the result of a search: all other units stop. */
  markFound(unit: ManagedUnit): void {
    const { workflow } = unit;
    if (workflow.foundUnit !== undefined || workflow.errorCode !== undefined) return;
    workflow.foundUnit = unit.number;
    this.#stopUnits(workflow, 'superseded');
  }

  fail(workflow: ManagedWorkflow, code: string, message: string): void {
    // Failed before: this may have been the last unit that it waited for.
    if (workflow.errorCode !== undefined || isWorkflowEnded(workflow)) return this.advance(workflow);
    workflow.errorCode = truncateText(code, 40);
    workflow.errorMessage = truncateText(message, messageLengthMax);
    this.#state.commits.markJob(workflow.job);
    this.#stopUnits(workflow, code === 'WORKFLOW_TIMEOUT' ? 'timeout' : 'superseded');
    this.advance(workflow);
  }

  /** The attempt ended without a result: the unit waits for another attempt, or fails after `maxRetries`. */
  retryUnit(unit: ManagedUnit, code: string, message: string, counted: number): void {
    const { workflow } = unit;
    const { job, facts } = workflow;
    if (
      isTerminalStatus(job.status) ||
      job.status === 'CANCELLING' ||
      workflow.errorCode !== undefined ||
      isWorkflowEnded(workflow)
    ) {
      unit.state = 'cancelled';
      this.#state.commits.markUnit(unit);
      return this.afterUnitStopped(workflow);
    }
    if (counted <= facts.maxRetries) return this.#dispatcher.requeue(unit);
    unit.state = 'failed';
    this.#state.commits.markUnit(unit);
    const text = `unit ${unit.number} of ${facts.name} failed after ${counted} attempts, the last with ${code} ${message}`;
    if (unit.phase === 'finish') this.#onTeardownFailed(unit, text);
    else this.fail(workflow, facts.maxRetries === 0 ? code : 'RETRIES_EXHAUSTED', text);
  }

  /** User code failed: a retry on another worker would fail too. */
  failUnit(unit: ManagedUnit, code: string, message: string): void {
    unit.state = 'failed';
    this.#state.commits.markUnit(unit);
    if (unit.phase === 'finish') this.#onTeardownFailed(unit, `${code} ${message}`);
    else this.fail(unit.workflow, code, message);
  }

  /** An attempt that was asked to stop has ended. */
  afterUnitStopped(workflow: ManagedWorkflow): void {
    const { job } = workflow;
    if (job.status === 'CANCELLING') this.#endIfStopped(job);
    else this.advance(workflow);
  }

  /** Cancels from any status; workers are asked to stop when the status is recorded. */
  cancel(job: ManagedJob): void {
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING') return;
    job.status = 'CANCELLING';
    job.deadlineMs = this.#state.nowMs + 3 * this.#state.options.jobLeaseMs;
    for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#stopUnits(workflow, 'cancelled');
    this.#endIfStopped(job);
  }

  /** Ends a job whose deadline has passed, in any status. */
  expireJob(job: ManagedJob): void {
    if (isTerminalStatus(job.status)) return;
    const { request, status } = job;
    const timeoutMs = request.timeoutMs ?? this.#state.options.jobTimeoutMs;
    const wasCancelled = status === 'CANCELLING';
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      this.#stopUnits(workflow, wasCancelled ? 'cancelled' : 'timeout');
      const isCut = !wasCancelled && workflow.status !== 'PENDING';
      this.#setEnd(workflow, isCut ? 'FAILED' : 'CANCELLED');
      if (isCut)
        [workflow.errorCode, workflow.errorMessage] = [
          'WORKFLOW_TIMEOUT',
          `the timeout of the job, ${timeoutMs} ms, expired`,
        ];
    }
    if (!wasCancelled) {
      job.errorCode = 'WORKFLOW_TIMEOUT';
      job.errorMessage = `the job had not ended after ${timeoutMs} ms; it was ${status}`;
    }
    this.#end(job, wasCancelled ? 'CANCELLED' : 'TIMEOUT');
  }

  expireWorkflow(workflow: ManagedWorkflow): void {
    const { facts } = workflow;
    if (workflow.phase === 'finish') {
      // Its work has ended; only the teardown takes too long.
      this.#state.addIncident(workflow.job, 'unit.failed', '', `the teardown of ${facts.name} took too long`);
      this.#stopUnits(workflow, 'timeout');
      return this.#conclude(workflow);
    }
    this.fail(workflow, 'WORKFLOW_TIMEOUT', `${facts.name} had not ended after ${facts.timeoutMs} ms`);
  }

  /** After a leader change: does what the records imply and the former leader may not have done. */
  resume(job: ManagedJob): void {
    if (isTerminalStatus(job.status)) return;
    if (job.status === 'CANCELLING') {
      // Its own timeout may expire before every worker has surely stopped.
      job.deadlineMs = this.#state.nowMs + 3 * this.#state.options.jobLeaseMs;
      for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#stopUnits(workflow, 'cancelled');
      return this.#endIfStopped(job);
    }
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      if (workflow.phase === 'none') this.startIfReady(workflow);
      else this.#resumeWorkflow(workflow);
      this.advance(workflow);
    }
    this.#endIfDone(job);
  }

  #resumeWorkflow(workflow: ManagedWorkflow): void {
    // The result of a unit may be recorded without what follows from it.
    if (workflow.errorCode === undefined) this.stopOnFailure(workflow);
    if (isWorkflowEnded(workflow)) return;
    if (workflow.errorCode !== undefined || workflow.foundUnit !== undefined) this.#resumeEnding(workflow);
    else if (workflow.phase === 'plan' && workflow.plan?.state === 'done') this.#onPlanned(workflow, workflow.plan);
    else if (workflow.waiting.length > 0) this.#state.runQueue.add(workflow);
  }

  #resumeEnding(workflow: ManagedWorkflow): void {
    if (workflow.phase === 'finish') {
      if (workflow.waiting.length > 0) this.#state.runQueue.add(workflow);
    } else this.#stopUnits(workflow, 'superseded');
  }

  #beginPhase(workflow: ManagedWorkflow, phase: 'whole' | 'plan' | 'work' | 'finish'): void {
    const { commits, runQueue, nowMs } = this.#state;
    createPhaseUnits(workflow, phase);
    workflow.readyMs = nowMs;
    commits.markJob(workflow.job);
    if (currentUnits(workflow).length === 0) return this.advance(workflow);
    runQueue.add(workflow);
    if (workflow.job.isInline || phase !== 'work') return;
    // Blocks of units count only once the job state records that the units exist.
    workflow.areUnitsRecorded = false;
    commits.markJobThen(workflow.job, () => {
      workflow.areUnitsRecorded = true;
    });
  }

  #onPlanned(workflow: ManagedWorkflow, unit: ManagedUnit): void {
    try {
      const { data, list, count } = parsePlanOutput(unit.output);
      workflow.planned = { data, list };
      if (workflow.facts.batch !== undefined && workflow.facts.batch.items === undefined) {
        if (count === undefined) return this.fail(workflow, 'WORKFLOW_FAILED', 'the plan contains no items');
        workflow.items = count;
      }
    } catch (error) {
      const code = isRemusterError(error) ? error.code : 'INTERNAL';
      return this.fail(workflow, code, error instanceof Error ? error.message : '');
    } finally {
      unit.output = undefined;
    }
    this.#beginPhase(workflow, 'work');
  }

  /** Stops the current units; none is assigned from now on. */
  #stopUnits(workflow: ManagedWorkflow, reason: StopReason): void {
    this.#state.runQueue.delete(workflow);
    workflow.waiting = [];
    const assignments: ActiveAssignment[] = [];
    for (const unit of allUnits(workflow)) {
      if (unit.state === 'waiting') unit.state = 'cancelled';
      if (unit.assignment !== undefined) {
        unit.assignment.stopping ??= reason;
        assignments.push(unit.assignment);
      }
    }
    const { job } = workflow;
    this.#state.commits.markJobThen(job, () => {
      for (const assignment of assignments)
        if (assignment.worker.assignments.has(assignment)) this.#stopper.stop(assignment, reason);
    });
  }

  #onTeardownFailed(unit: ManagedUnit, text: string): void {
    const { workflow } = unit;
    const node = unit.attempts.at(-1)?.name ?? '';
    this.#state.addIncident(
      workflow.job,
      'unit.failed',
      node,
      `the teardown of ${workflow.facts.name} failed: ${text}`,
    );
    this.#conclude(workflow);
  }

  #conclude(workflow: ManagedWorkflow): void {
    if (isWorkflowEnded(workflow) || isTerminalStatus(workflow.job.status) || workflow.job.status === 'CANCELLING')
      return;
    this.#decideEnd(workflow);
    this.#state.runQueue.delete(workflow);
    workflow.planned = undefined;
    this.#state.commits.markJob(workflow.job);
    this.#onWorkflowEnded(workflow);
  }

  /** From recorded results and the request alone, so the next leader decides the same. */
  #decideEnd(workflow: ManagedWorkflow): void {
    if (workflow.errorCode !== undefined) return this.#setEnd(workflow, 'FAILED');
    const counts = itemCountsOf(workflow, false);
    this.#setEnd(workflow, batchEnd(workflow.facts, { ...counts, isFound: workflow.foundUnit !== undefined }));
    if (workflow.status === 'COMPLETED') return;
    workflow.errorCode = workflow.status === 'PARTIAL' ? 'PARTIAL' : 'WORKFLOW_FAILED';
    workflow.errorMessage = failedItemsText(workflow, counts);
  }

  #setEnd(workflow: ManagedWorkflow, status: WorkflowStatus): void {
    workflow.status = status;
    workflow.endedMs = this.#state.managerClockMs;
  }

  #onWorkflowEnded(workflow: ManagedWorkflow): void {
    const { job } = workflow;
    for (const next of job.workflows) if (next.facts.after.includes(workflow.facts.name)) this.startIfReady(next);
    this.#endIfDone(job);
  }

  #endIfDone(job: ManagedJob): void {
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING' || !job.workflows.every(isWorkflowEnded)) return;
    const { workflows } = job;
    const worst =
      workflows.find(({ status }) => status === 'FAILED') ?? workflows.find(({ status }) => status === 'PARTIAL');
    if (worst === undefined) return this.#end(job, 'COMPLETED');
    job.errorCode = worst.errorCode;
    job.errorMessage = truncateText(`${worst.facts.name}: ${worst.errorMessage ?? ''}`, messageLengthMax);
    if (worst.status === 'PARTIAL') this.#end(job, 'PARTIAL');
    else this.#end(job, worst.errorCode === 'WORKFLOW_TIMEOUT' ? 'TIMEOUT' : 'FAILED');
  }

  #endIfStopped(job: ManagedJob): void {
    for (const workflow of job.workflows)
      for (const unit of allUnits(workflow)) if (unit.assignment !== undefined || unit.state === 'storing') return;
    for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#setEnd(workflow, 'CANCELLED');
    this.#end(job, 'CANCELLED');
  }

  #end(job: ManagedJob, status: JobStatus): void {
    const { managerClockMs, wallMs, commits, deferredStatus } = this.#state;
    job.status = status;
    job.endedMs = managerClockMs;
    job.endedWallMs = wallMs;
    job.hasUnpublishedChange = true;
    deferredStatus.delete(job);
    for (const workflow of job.workflows) {
      workflow.waiting = [];
      workflow.planned = undefined;
      workflow.value = undefined;
      if (workflow.plan !== undefined) this.#closeAttempt(workflow.plan);
      for (const unit of workflow.units) this.#closeAttempt(unit);
      if (workflow.finish !== undefined) this.#closeAttempt(workflow.finish);
    }
    commits.markJobThen(job, () => this.#ended(job));
  }

  /** Closes a running attempt: it is being stopped, and its view does not change any more. */
  #closeAttempt(unit: ManagedUnit): void {
    unit.liveProgress = unit.output = undefined;
    const last = unit.attempts.at(-1);
    if (last?.outcome !== 'running') return;
    last.outcome = 'cancelled';
    unit.state = 'cancelled';
    this.#state.commits.markUnit(unit);
  }
}

function failedItemsText(
  workflow: ManagedWorkflow,
  { completed, failed }: { readonly completed: number; readonly failed: number },
): string {
  return `${failed} of ${completed + failed} items failed${sampleText(workflow)}`;
}

function sampleText({ failureSample }: ManagedWorkflow): string {
  return failureSample === undefined ? '' : `, one with ${failureSample}`;
}

function isWorkDone(workflow: ManagedWorkflow): boolean {
  if (workflow.phase === 'work' || workflow.phase === 'whole') return workflow.done === workflow.units.length;
  return false;
}
