/**
 * Drives a job through its phases to its end: completion, failure, timeout, cancel, early success. Statuses only move
 * forward. Never talks to workers.
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

const whyMax = 1_000;

export class JobLifecycle {
  readonly #office: ManagerState;
  readonly #giving: Dispatcher;
  readonly #stopping: UnitStopper;
  readonly #ended: (job: ManagedJob) => void;

  /** `ended` is told when the end of a job is recorded. */
  constructor(office: ManagerState, giving: Dispatcher, stopping: UnitStopper, ended: (job: ManagedJob) => void) {
    this.#office = office;
    this.#giving = giving;
    this.#stopping = stopping;
    this.#ended = ended;
  }

  /** It waits for workers from now on. */
  begin(job: ManagedJob): void {
    const { nowMs, commits, options } = this.#office;
    job.status = 'QUEUED';
    job.deadlineMs = nowMs + (job.request.timeoutMs ?? options.jobTimeoutMs);
    commits.markJob(job);
    for (const workflow of job.workflows) this.startIfReady(workflow);
  }

  /** Begins a workflow if everything before it is COMPLETED or PARTIAL. */
  startIfReady(workflow: ManagedWorkflow): void {
    const { facts, job } = workflow;
    if (workflow.phase !== 'none' || isWorkflowEnded(workflow)) return;
    if (facts.after.length === 0) return this.#beginPhase(workflow, firstPhaseOf(workflow));
    const before = job.workflows.filter((one) => facts.after.includes(one.facts.name));
    if (before.some(({ status }) => status === 'FAILED' || status === 'CANCELLED')) {
      this.#setEnd(workflow, 'CANCELLED');
      this.#office.commits.markJob(job);
      return this.#afterWorkflow(workflow);
    }
    if (before.every(({ status }) => isSuccess(status))) this.#beginPhase(workflow, firstPhaseOf(workflow));
  }

  /** A unit is done, and its end is about to be recorded. */
  unitCompleted(unit: ManagedUnit): void {
    const { workflow } = unit;
    this.#office.markProgress(workflow);
    if (unit.phase === 'plan') return this.#planned(workflow, unit);
    if (unit.phase === 'finish') return this.#conclude(workflow);
    workflow.done += 1;
    this.advance(workflow);
  }

  /** Something of it has ended: is there a next phase, or the end? */
  advance(workflow: ManagedWorkflow): void {
    if (isWorkflowEnded(workflow) || workflow.phase === 'none' || workflow.phase === 'finish') return;
    const isBroken = workflow.errorCode !== undefined || workflow.foundUnit !== undefined;
    const isDone = isBroken ? workflow.active === 0 : isWorkDone(workflow);
    if (!isDone || isTerminalStatus(workflow.job.status)) return;
    workflow.value = workflow.errorCode === undefined ? workflowValue(workflow) : undefined;
    // Without its setup there is nothing to tear down, `whole` has done so itself, and late is late.
    const isLate = workflow.errorCode === 'WORKFLOW_TIMEOUT';
    if (workflow.facts.hasTeardown && workflow.phase === 'work' && !isLate) this.#beginPhase(workflow, 'finish');
    else this.#conclude(workflow);
  }

  /** `onItemError: 'stop'`: with the first failed item that is known everything of the workflow ends. */
  stopOnFailure(workflow: ManagedWorkflow): void {
    if (workflow.facts.batch?.onItemError !== 'stop' || workflow.foundUnit !== undefined) return;
    if (itemCountsOf(workflow, false).failed === 0 || workflow.phase === 'finish') return;
    this.fail(workflow, 'WORKFLOW_FAILED', `stopped after the first failed item${sampleText(workflow)}`);
  }

  /** It has what the whole workflow was looking for. */
  markFound(unit: ManagedUnit): void {
    const { workflow } = unit;
    if (workflow.foundUnit !== undefined || workflow.errorCode !== undefined) return;
    workflow.foundUnit = unit.number;
    this.#endUnits(workflow, 'superseded');
  }

  fail(workflow: ManagedWorkflow, code: string, why: string): void {
    // It has failed before: perhaps this was the last that it waited for.
    if (workflow.errorCode !== undefined || isWorkflowEnded(workflow)) return this.advance(workflow);
    workflow.errorCode = truncateText(code, 40);
    workflow.errorMessage = truncateText(why, whyMax);
    this.#office.commits.markJob(workflow.job);
    this.#endUnits(workflow, code === 'WORKFLOW_TIMEOUT' ? 'timeout' : 'superseded');
    this.advance(workflow);
  }

  /** Its attempt is over without an end that counts. Another one, unless there were enough. */
  retryUnit(unit: ManagedUnit, code: string, why: string, counted: number): void {
    const { workflow } = unit;
    const { job, facts } = workflow;
    if (
      isTerminalStatus(job.status) ||
      job.status === 'CANCELLING' ||
      workflow.errorCode !== undefined ||
      isWorkflowEnded(workflow)
    ) {
      unit.state = 'cancelled';
      this.#office.commits.markUnit(unit);
      return this.afterUnitStopped(workflow);
    }
    if (counted <= facts.maxRetries) return this.#giving.requeue(unit);
    unit.state = 'failed';
    this.#office.commits.markUnit(unit);
    const text = `unit ${unit.number} of ${facts.name} was tried ${counted} times; the last time: ${code} ${why}`;
    if (unit.phase === 'finish') this.#finishFailed(unit, text);
    else this.fail(workflow, facts.maxRetries === 0 ? code : 'RETRIES_EXHAUSTED', text);
  }

  /** Its own code failed: no other worker would do better. */
  failUnit(unit: ManagedUnit, code: string, why: string): void {
    unit.state = 'failed';
    this.#office.commits.markUnit(unit);
    if (unit.phase === 'finish') this.#finishFailed(unit, `${code} ${why}`);
    else this.fail(unit.workflow, code, why);
  }

  /** A run that was to end has ended. */
  afterUnitStopped(workflow: ManagedWorkflow): void {
    const { job } = workflow;
    if (job.status === 'CANCELLING') this.#cancelled(job);
    else this.advance(workflow);
  }

  /** From any state; when it is recorded, workers are told. */
  cancel(job: ManagedJob): void {
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING') return;
    job.status = 'CANCELLING';
    job.deadlineMs = this.#office.nowMs + 3 * this.#office.options.jobLeaseMs;
    for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#endUnits(workflow, 'cancelled');
    this.#cancelled(job);
  }

  /** Its time is over, in whatever state it is. */
  expireJob(job: ManagedJob): void {
    if (isTerminalStatus(job.status)) return;
    const { request, status } = job;
    const timeoutMs = request.timeoutMs ?? this.#office.options.jobTimeoutMs;
    const wasCancelled = status === 'CANCELLING';
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      this.#endUnits(workflow, wasCancelled ? 'cancelled' : 'timeout');
      const isCut = !wasCancelled && workflow.status !== 'PENDING';
      this.#setEnd(workflow, isCut ? 'FAILED' : 'CANCELLED');
      if (isCut) [workflow.errorCode, workflow.errorMessage] = ['WORKFLOW_TIMEOUT', `the job had ${timeoutMs} ms`];
    }
    if (!wasCancelled) {
      job.errorCode = 'WORKFLOW_TIMEOUT';
      job.errorMessage = `the job was not over after ${timeoutMs} ms; it was ${status}`;
    }
    this.#end(job, wasCancelled ? 'CANCELLED' : 'TIMEOUT');
  }

  expireWorkflow(workflow: ManagedWorkflow): void {
    const { facts } = workflow;
    if (workflow.phase === 'finish') {
      // Its work is done or failed already; only its last step takes too long.
      this.#office.addIncident(workflow.job, 'unit.failed', '', `the teardown of ${facts.name} took too long`);
      this.#endUnits(workflow, 'timeout');
      return this.#conclude(workflow);
    }
    this.fail(workflow, 'WORKFLOW_TIMEOUT', `${facts.name} was not over after ${facts.timeoutMs} ms`);
  }

  /** After a change of the leader: whatever was about to follow. */
  resume(job: ManagedJob): void {
    if (isTerminalStatus(job.status)) return;
    if (job.status === 'CANCELLING') {
      // Its own time may be over before whoever runs it has surely stopped.
      job.deadlineMs = this.#office.nowMs + 3 * this.#office.options.jobLeaseMs;
      for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#endUnits(workflow, 'cancelled');
      return this.#cancelled(job);
    }
    for (const workflow of job.workflows) {
      if (isWorkflowEnded(workflow)) continue;
      if (workflow.phase === 'none') this.startIfReady(workflow);
      else this.#resumeWorkflow(workflow);
      this.advance(workflow);
    }
    this.#checkEnd(job);
  }

  #resumeWorkflow(workflow: ManagedWorkflow): void {
    // The end of a unit may be recorded, and what should have followed not.
    if (workflow.errorCode === undefined) this.stopOnFailure(workflow);
    if (isWorkflowEnded(workflow)) return;
    if (workflow.errorCode !== undefined || workflow.foundUnit !== undefined) this.#resumeEnding(workflow);
    else if (workflow.phase === 'plan' && workflow.plan?.state === 'done') this.#planned(workflow, workflow.plan);
    else if (workflow.waiting.length > 0) this.#office.runQueue.add(workflow);
  }

  #resumeEnding(workflow: ManagedWorkflow): void {
    if (workflow.phase === 'finish') {
      if (workflow.waiting.length > 0) this.#office.runQueue.add(workflow);
    } else this.#endUnits(workflow, 'superseded');
  }

  #beginPhase(workflow: ManagedWorkflow, phase: 'whole' | 'plan' | 'work' | 'finish'): void {
    const { commits, runQueue, nowMs } = this.#office;
    createPhaseUnits(workflow, phase);
    workflow.readyMs = nowMs;
    commits.markJob(workflow.job);
    if (currentUnits(workflow).length === 0) return this.advance(workflow);
    runQueue.add(workflow);
    if (workflow.job.isInline || phase !== 'work') return;
    // Its units lie in blocks, which say nothing before it is recorded that there are units.
    workflow.areUnitsRecorded = false;
    commits.markJobThen(workflow.job, () => {
      workflow.areUnitsRecorded = true;
    });
  }

  #planned(workflow: ManagedWorkflow, unit: ManagedUnit): void {
    try {
      const { data, list, count } = parsePlanOutput(unit.output);
      workflow.planned = { data, list };
      if (workflow.facts.batch !== undefined && workflow.facts.batch.items === undefined) {
        if (count === undefined)
          return this.fail(workflow, 'WORKFLOW_FAILED', 'the plan did not say which items there are');
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

  /** Nothing of it is worked on from now on. */
  #endUnits(workflow: ManagedWorkflow, why: StopReason): void {
    this.#office.runQueue.delete(workflow);
    workflow.waiting = [];
    const runs: ActiveAssignment[] = [];
    for (const unit of allUnits(workflow)) {
      if (unit.state === 'waiting') unit.state = 'cancelled';
      if (unit.assignment !== undefined) {
        unit.assignment.stopping ??= why;
        runs.push(unit.assignment);
      }
    }
    const { job } = workflow;
    this.#office.commits.markJobThen(job, () => {
      for (const run of runs) if (run.worker.assignments.has(run)) this.#stopping.stop(run, why);
    });
  }

  #finishFailed(unit: ManagedUnit, text: string): void {
    const { workflow } = unit;
    const node = unit.attempts.at(-1)?.name ?? '';
    this.#office.addIncident(
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
    this.#office.runQueue.delete(workflow);
    workflow.planned = undefined;
    this.#office.commits.markJob(workflow.job);
    this.#afterWorkflow(workflow);
  }

  /** From recorded ends and the request alone: the next leader decides the same. */
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
    workflow.endedMs = this.#office.managerClockMs;
  }

  #afterWorkflow(workflow: ManagedWorkflow): void {
    const { job } = workflow;
    for (const next of job.workflows) if (next.facts.after.includes(workflow.facts.name)) this.startIfReady(next);
    this.#checkEnd(job);
  }

  #checkEnd(job: ManagedJob): void {
    if (isTerminalStatus(job.status) || job.status === 'CANCELLING' || !job.workflows.every(isWorkflowEnded)) return;
    const { workflows } = job;
    const worst =
      workflows.find(({ status }) => status === 'FAILED') ?? workflows.find(({ status }) => status === 'PARTIAL');
    if (worst === undefined) return this.#end(job, 'COMPLETED');
    job.errorCode = worst.errorCode;
    job.errorMessage = truncateText(`${worst.facts.name}: ${worst.errorMessage ?? ''}`, whyMax);
    if (worst.status === 'PARTIAL') this.#end(job, 'PARTIAL');
    else this.#end(job, worst.errorCode === 'WORKFLOW_TIMEOUT' ? 'TIMEOUT' : 'FAILED');
  }

  #cancelled(job: ManagedJob): void {
    for (const workflow of job.workflows)
      for (const unit of allUnits(workflow)) if (unit.assignment !== undefined) return;
    for (const workflow of job.workflows) if (!isWorkflowEnded(workflow)) this.#setEnd(workflow, 'CANCELLED');
    this.#end(job, 'CANCELLED');
  }

  #end(job: ManagedJob, status: JobStatus): void {
    const { managerClockMs, wallMs, commits, deferredStatus } = this.#office;
    job.status = status;
    job.endedMs = managerClockMs;
    job.endedWallMs = wallMs;
    job.hasUnpublishedChange = true;
    deferredStatus.delete(job);
    for (const workflow of job.workflows) {
      workflow.waiting = [];
      workflow.planned = undefined;
      workflow.value = undefined;
      if (workflow.plan !== undefined) this.#endOf(workflow.plan);
      for (const unit of workflow.units) this.#endOf(unit);
      if (workflow.finish !== undefined) this.#endOf(workflow.finish);
    }
    commits.markJobThen(job, () => this.#ended(job));
  }

  /** What still runs is being ended, and nothing that is shown of it will change. */
  #endOf(unit: ManagedUnit): void {
    unit.liveProgress = unit.output = undefined;
    const last = unit.attempts.at(-1);
    if (last?.outcome !== 'running') return;
    last.outcome = 'cancelled';
    unit.state = 'cancelled';
    this.#office.commits.markUnit(unit);
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
