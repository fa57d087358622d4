/**
 * Rebuilds a job from its records. A recorded assignment counts as running until its worker reports otherwise or the
 * lease of the worker expires.
 */
import type { NodeId } from '../../../base/ids.ts';
import { isSuccess, isTerminalStatus } from '../../job-types.ts';
import { jobLimits } from '../../limits.ts';
import type { JobRecord, JobStateRecord, UnitRecord, WorkflowRecord } from '../../records/job-record.ts';
import { failuresMax } from '../../report/bounds.ts';
import { finishUnitNumber, planUnitNumber } from '../../unit-spec.ts';
import { createJob } from '../submission/job-factory.ts';
import {
  type Attempt,
  type ManagedJob,
  type PlanResult,
  type ActiveAssignment,
  type ManagedUnit,
  type ManagedWorkflow,
  isWorkflowEnded,
  itemCountsOf,
  findUnit,
  allUnits,
} from '../model/managed-job.ts';
import type { RequestCache } from '../submission/request-cache.ts';
import type { WorkerSession } from '../model/worker-table.ts';
import { usableCores, createUnit, currentUnits } from '../model/unit-split.ts';
import { parsePlanOutput, workflowValue } from '../model/workflow-values.ts';

export type StoredJob = {
  readonly id: string;
  readonly job: JobRecord;
  /** The current state, if it differs from the first. */
  readonly state: JobStateRecord | undefined;
  readonly blocks: readonly { readonly workflow: number; readonly units: readonly UnitRecord[] }[];
};

export type RestoreContext = {
  readonly nowMs: number;
  readonly managerClockMs: number;
  readonly jobTimeoutMs: number;
  readonly requests: RequestCache;
  /** The session of that worker generation, opened if needed. */
  sessionOf(id: NodeId, name: string, generation: number): WorkerSession;
};

/** Throws BAD_ARGUMENT if this version cannot interpret the request. */
export function restoreJob({ id, job: record, state: latest, blocks }: StoredJob, context: RestoreContext): ManagedJob {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson } = record;
  const state = latest ?? record.state;
  const checked = context.requests.validate(requestJson);
  const { request } = checked;
  const fields = { id, submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson: '' };
  const job = createJob(fields, checked, context.nowMs);
  const { status, startedWallMs, endedWallMs, startedMs, endedMs, code, message } = state;
  Object.assign(job, {
    status,
    recordedStatus: status,
    startedWallMs,
    endedWallMs,
    startedMs,
    endedMs,
    errorCode: code,
    errorMessage: message,
    isRecorded: true,
  });
  job.incidents.push(...state.incidents);
  const delayMs = Math.max(0, (request.startAtMs ?? 0) - submittedWallMs);
  const spentMs = context.managerClockMs - submittedMs - delayMs;
  job.deadlineMs = context.nowMs + (request.timeoutMs ?? context.jobTimeoutMs) - Math.max(0, spentMs);
  for (const [index, workflow] of job.workflows.entries()) {
    const part = state.workflows[index];
    if (part !== undefined) restoreWorkflow(workflow, part, context);
  }
  for (const block of blocks) {
    const workflow = job.workflows[block.workflow];
    if (workflow !== undefined) for (const unit of block.units) restoreUnit(workflow, unit, context);
    job.hasBlocks = true;
  }
  for (const workflow of job.workflows) countUnits(workflow);
  return job;
}

function restoreWorkflow(workflow: ManagedWorkflow, record: WorkflowRecord, context: RestoreContext): void {
  const { status, phase, startedMs, endedMs, items, code, message, found, units } = record;
  Object.assign(workflow, {
    ...{ status, phase, startedMs, endedMs, items },
    ...{ errorCode: code, errorMessage: message, foundUnit: found },
  });
  const workPhase = phase === 'whole' ? 'whole' : 'work';
  workflow.units = Array.from({ length: units }, (_, number) => createUnit(workflow, number, workPhase));
  for (const unit of record.inline) {
    if (unit.unit === planUnitNumber) workflow.plan = createUnit(workflow, planUnitNumber, 'plan');
    if (unit.unit === finishUnitNumber) workflow.finish = createUnit(workflow, finishUnitNumber, 'finish');
    restoreUnit(workflow, unit, context);
  }
}

function restoreUnit(workflow: ManagedWorkflow, record: UnitRecord, context: RestoreContext): void {
  const unit = findUnit(workflow, record.unit);
  if (unit === undefined) return;
  unit.attempts = record.attempts.map((attempt): Attempt => ({ ...attempt }));
  unit.state = record.state;
  unit.end = record.end;
  const last = unit.attempts.at(-1);
  if (record.end !== undefined) {
    const { end } = record;
    if (end.summary === undefined) workflow.job.outOfLineBytes += end.summaryBytes;
    if (end.output === undefined) workflow.job.outOfLineBytes += end.outputBytes;
    if (end.failures === undefined) workflow.job.outOfLineBytes += end.failuresBytes ?? 0;
    unit.output = end.output;
  }
  if (last?.outcome !== 'running') return;
  const worker = context.sessionOf(last.worker, last.name, last.generation);
  const stopping = isTerminalStatus(workflow.job.status) ? 'superseded' : undefined;
  const assignment: ActiveAssignment = {
    unit,
    attempt: last,
    worker,
    isAccepted: false,
    isRecorded: true,
    sentMs: context.nowMs,
    missedHeartbeats: 0,
    stopping,
  };
  // The worker of a finished job is asked to stop the attempt at its next heartbeat.
  if (stopping !== undefined) return;
  unit.assignment = assignment;
  worker.assignments.add(assignment);
}

function countUnits(workflow: ManagedWorkflow): void {
  let kept = 0;
  for (const unit of allUnits(workflow)) kept += unit.end?.outputBytes ?? 0;
  workflow.outputBytes = kept;
  // Units list all their failed items up to the limit of the workflow.
  const { failed } = itemCountsOf(workflow, false);
  workflow.failuresListed = Math.min(failuresMax, failed);
  workflow.retainedBytes = kept <= jobLimits.contextBytesMax ? kept : undefined;
  workflow.done = workflow.units.filter(({ state }) => state === 'done').length;
  const current = currentUnits(workflow);
  workflow.active = current.filter(({ assignment }) => assignment !== undefined).length;
  workflow.waiting = isWorkflowEnded(workflow) ? [] : current.filter(({ state }) => state === 'waiting').toReversed();
  const hasBegun = current.some(({ attempts }) => attempts.length > 0);
  if (hasBegun && workflow.status === 'PENDING') workflow.status = 'ASSIGNED';
  if (!hasBegun && workflow.phase === 'work')
    workflow.coresToStart = Math.min(usableCores(workflow), workflow.units.length);
}

/** Restores plans and the values for dependents, once `missingOutputs` are read. */
export function restoreValues(job: ManagedJob): void {
  if (isTerminalStatus(job.status)) return;
  for (const workflow of job.workflows) {
    const { plan, phase } = workflow;
    if (plan?.end !== undefined && phase !== 'plan') {
      workflow.planned = plannedOf(workflow, plan.output);
      plan.output = undefined;
    }
    const isDone = isSuccess(workflow.status);
    if (isDone || (phase === 'finish' && workflow.errorCode === undefined)) workflow.value = workflowValue(workflow);
    if (isDone) workflow.planned = undefined;
  }
}

/** The plan was valid before; if it cannot be parsed now, only this workflow fails. */
function plannedOf(workflow: ManagedWorkflow, output: Uint8Array | undefined): PlanResult | undefined {
  try {
    const { data, list } = parsePlanOutput(output);
    return { data, list };
  } catch {
    workflow.errorCode ??= 'INTERNAL';
    workflow.errorMessage ??= 'the recorded output of its plan is unreadable';
    return undefined;
  }
}

/** Out-of-line outputs that are needed to go on: those of plans, and those for dependents. */
export function missingOutputs(job: ManagedJob): readonly ManagedUnit[] {
  if (isTerminalStatus(job.status)) return [];
  return job.workflows.flatMap((workflow) => {
    const { plan, units, facts } = workflow;
    const hasDependents = job.workflows.some((one) => !isWorkflowEnded(one) && one.facts.after.includes(facts.name));
    const requested = hasDependents && workflow.retainedBytes !== undefined ? [...units] : [];
    if (plan !== undefined && (hasDependents || !isWorkflowEnded(workflow))) requested.push(plan);
    return requested.filter((unit) => unit.end !== undefined && unit.output === undefined && unit.end.outputBytes > 0);
  });
}
