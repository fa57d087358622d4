/**
 * Rebuilds a job from its records. A recorded assignment counts as running until the worker reports otherwise or its
 * lease expires.
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
  /** The present state, if it differs from the first. */
  readonly state: JobStateRecord | undefined;
  readonly blocks: readonly { readonly workflow: number; readonly units: readonly UnitRecord[] }[];
};

export type RestoreContext = {
  readonly nowMs: number;
  readonly managerMs: number;
  readonly jobTimeoutMs: number;
  readonly requests: RequestCache;
  /** The seat of that life of a worker, made if need be. */
  sessionOf(id: NodeId, name: string, generation: number): WorkerSession;
};

/** BAD_ARGUMENT when this version cannot make anything of it. */
export function restoreJob({ id, job: record, state: latest, blocks }: StoredJob, around: RestoreContext): ManagedJob {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson } = record;
  const state = latest ?? record.state;
  const checked = around.requests.validate(requestJson);
  const { request } = checked;
  const birth = { id, submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson: '' };
  const job = createJob(birth, checked, around.nowMs);
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
  const spentMs = around.managerMs - submittedMs - delayMs;
  job.deadlineMs = around.nowMs + (request.timeoutMs ?? around.jobTimeoutMs) - Math.max(0, spentMs);
  for (const [index, workflow] of job.workflows.entries()) {
    const part = state.workflows[index];
    if (part !== undefined) restoreWorkflow(workflow, part, around);
  }
  for (const block of blocks) {
    const workflow = job.workflows[block.workflow];
    if (workflow !== undefined) for (const unit of block.units) restoreUnit(workflow, unit, around);
    job.hasBlocks = true;
  }
  for (const workflow of job.workflows) countUnits(workflow);
  return job;
}

function restoreWorkflow(workflow: ManagedWorkflow, record: WorkflowRecord, around: RestoreContext): void {
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
    restoreUnit(workflow, unit, around);
  }
}

function restoreUnit(workflow: ManagedWorkflow, record: UnitRecord, around: RestoreContext): void {
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
  const worker = around.sessionOf(last.worker, last.name, last.generation);
  const stopping = isTerminalStatus(workflow.job.status) ? 'superseded' : undefined;
  const run: ActiveAssignment = {
    unit,
    attempt: last,
    worker,
    isTaken: false,
    isRecorded: true,
    sentMs: around.nowMs,
    missedHeartbeats: 0,
    stopping,
  };
  // What still runs of a job that is over, its worker is told to end when it reports.
  if (stopping !== undefined) return;
  unit.assignment = run;
  worker.assignments.add(run);
}

function countUnits(workflow: ManagedWorkflow): void {
  let kept = 0;
  for (const unit of allUnits(workflow)) kept += unit.end?.outputBytes ?? 0;
  workflow.outputBytes = kept;
  // A unit lists all of its failed items as long as there is room.
  const { failed } = itemCountsOf(workflow, false);
  workflow.failuresListed = Math.min(failuresMax, failed);
  workflow.retainedBytes = kept <= jobLimits.contextBytesMax ? kept : undefined;
  workflow.done = workflow.units.filter(({ state }) => state === 'done').length;
  const present = currentUnits(workflow);
  workflow.active = present.filter(({ assignment }) => assignment !== undefined).length;
  workflow.waiting = isWorkflowEnded(workflow) ? [] : present.filter(({ state }) => state === 'waiting').toReversed();
  const hasBegun = present.some(({ attempts }) => attempts.length > 0);
  if (hasBegun && workflow.status === 'PENDING') workflow.status = 'ASSIGNED';
  if (!hasBegun && workflow.phase === 'work')
    workflow.coresToStart = Math.min(usableCores(workflow), workflow.units.length);
}

/** What plans said and what is handed on, once `missingOutputs` are there. */
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

/** It was read before; if it cannot be now, that is the end of this workflow and of nothing else. */
function plannedOf(workflow: ManagedWorkflow, output: Uint8Array | undefined): PlanResult | undefined {
  try {
    const { data, list } = parsePlanOutput(output);
    return { data, list };
  } catch {
    workflow.errorCode ??= 'INTERNAL';
    workflow.errorMessage ??= 'what its plan said cannot be read any more';
    return undefined;
  }
}

/** Outputs that lie apart and are needed to go on: those of plans, and those that are handed on. */
export function missingOutputs(job: ManagedJob): readonly ManagedUnit[] {
  if (isTerminalStatus(job.status)) return [];
  return job.workflows.flatMap((workflow) => {
    const { plan, units, facts } = workflow;
    const isHandedOn = job.workflows.some((one) => !isWorkflowEnded(one) && one.facts.after.includes(facts.name));
    const wanted = isHandedOn && workflow.retainedBytes !== undefined ? [...units] : [];
    if (plan !== undefined && (isHandedOn || !isWorkflowEnded(workflow))) wanted.push(plan);
    return wanted.filter((unit) => unit.end !== undefined && unit.output === undefined && unit.end.outputBytes > 0);
  });
}
