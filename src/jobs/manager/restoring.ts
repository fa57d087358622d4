/**
 * A job in memory, made from what a leader before us recorded. What a worker was given counts as being there until the
 * worker says otherwise, or its lease is over.
 */
import type { NodeId } from '../../base/ids.ts';
import { isOver } from '../job-words.ts';
import { jobLimits } from '../limits.ts';
import type { JobRecord, StateRecord, UnitRecord, WorkflowRecord } from '../records/job-record.ts';
import { finishUnit, planUnit } from '../unit-words.ts';
import { newJob } from './making.ts';
import {
  type Attempt,
  type Job,
  type Planned,
  type Run,
  type Unit,
  type Workflow,
  isEnded,
  unitOf,
  unitsOf,
} from './model.ts';
import type { Requests } from './requests.ts';
import type { Seat } from './seats.ts';
import { coresOf, newUnit, presentUnits } from './units.ts';
import { readPlan, valueOf } from './values.ts';

export type Recorded = {
  readonly id: string;
  readonly job: JobRecord;
  /** The present state, if it differs from the first. */
  readonly state: StateRecord | undefined;
  readonly blocks: readonly { readonly workflow: number; readonly units: readonly UnitRecord[] }[];
};

export type Around = {
  readonly nowMs: number;
  readonly managerMs: number;
  readonly jobTimeoutMs: number;
  readonly requests: Requests;
  /** The seat of that life of a worker, made if need be. */
  seatOf(id: NodeId, name: string, generation: number): Seat;
};

/** BAD_ARGUMENT when this version cannot make anything of it. */
export function restoreJob({ id, job: record, state: latest, blocks }: Recorded, around: Around): Job {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, words } = record;
  const state = latest ?? record.state;
  const checked = around.requests.of(words);
  const { request } = checked;
  const birth = { id, submitter, submittedWallMs, submittedMs, seed, key, hash, words: '' };
  const job = newJob(birth, checked, around.nowMs);
  const { status, startedWallMs, endedWallMs, startedMs, endedMs, code, why } = state;
  Object.assign(job, {
    status,
    shown: status,
    startedWallMs,
    endedWallMs,
    startedMs,
    endedMs,
    code,
    why,
    isStored: true,
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

function restoreWorkflow(workflow: Workflow, record: WorkflowRecord, around: Around): void {
  const { status, phase, startedMs, items, code, why, found, units } = record;
  Object.assign(workflow, { status, phase, startedMs, items, code, why, found });
  const workPhase = phase === 'whole' ? 'whole' : 'work';
  workflow.units = Array.from({ length: units }, (_, number) => newUnit(workflow, number, workPhase));
  for (const unit of record.inline) {
    if (unit.unit === planUnit) workflow.plan = newUnit(workflow, planUnit, 'plan');
    if (unit.unit === finishUnit) workflow.finish = newUnit(workflow, finishUnit, 'finish');
    restoreUnit(workflow, unit, around);
  }
}

function restoreUnit(workflow: Workflow, record: UnitRecord, around: Around): void {
  const unit = unitOf(workflow, record.unit);
  if (unit === undefined) return;
  unit.attempts = record.attempts.map((attempt): Attempt => ({ ...attempt }));
  unit.state = record.state;
  unit.end = record.end;
  const last = unit.attempts.at(-1);
  if (record.end !== undefined) {
    const { end } = record;
    if (end.summary === undefined) workflow.job.bytesApart += end.summaryBytes;
    if (end.output === undefined) workflow.job.bytesApart += end.outputBytes;
    unit.output = end.output;
  }
  if (last?.outcome !== 'running') return;
  const seat = around.seatOf(last.worker, last.name, last.generation);
  const stopping = isOver(workflow.job.status) ? 'superseded' : undefined;
  const run: Run = {
    unit,
    attempt: last,
    seat,
    isTaken: false,
    isRecorded: true,
    sentMs: around.nowMs,
    missed: 0,
    stopping,
  };
  // What still runs of a job that is over, its worker is told to end when it reports.
  if (stopping !== undefined) return;
  unit.run = run;
  seat.runs.add(run);
}

function countUnits(workflow: Workflow): void {
  let kept = 0;
  for (const unit of unitsOf(workflow)) kept += unit.end?.outputBytes ?? 0;
  workflow.outputBytes = kept;
  workflow.keptBytes = kept <= jobLimits.contextBytesMax ? kept : undefined;
  workflow.done = workflow.units.filter(({ state }) => state === 'done').length;
  const present = presentUnits(workflow);
  workflow.active = present.filter(({ run }) => run !== undefined).length;
  workflow.waiting = isEnded(workflow) ? [] : present.filter(({ state }) => state === 'waiting').toReversed();
  const hasBegun = present.some(({ attempts }) => attempts.length > 0);
  if (hasBegun && workflow.status === 'PENDING') workflow.status = 'ASSIGNED';
  if (!hasBegun && workflow.phase === 'work') workflow.needs = Math.min(coresOf(workflow), workflow.units.length);
}

/** What plans said and what is handed on, once `missingOutputs` are there. */
export function restoreValues(job: Job): void {
  if (isOver(job.status)) return;
  for (const workflow of job.workflows) {
    const { plan, phase } = workflow;
    if (plan?.end !== undefined && phase !== 'plan') {
      workflow.planned = plannedOf(workflow, plan.output);
      plan.output = undefined;
    }
    const isDone = workflow.status === 'COMPLETED';
    if (isDone || (phase === 'finish' && workflow.code === undefined)) workflow.value = valueOf(workflow);
    if (isDone) workflow.planned = undefined;
  }
}

/** It was read before; if it cannot be now, that is the end of this workflow and of nothing else. */
function plannedOf(workflow: Workflow, output: Uint8Array | undefined): Planned | undefined {
  try {
    const { data, list } = readPlan(output);
    return { data, list };
  } catch {
    workflow.code ??= 'INTERNAL';
    workflow.why ??= 'what its plan said cannot be read any more';
    return undefined;
  }
}

/** Outputs that lie apart and are needed to go on: those of plans, and those that are handed on. */
export function missingOutputs(job: Job): readonly Unit[] {
  if (isOver(job.status)) return [];
  return job.workflows.flatMap((workflow) => {
    const { plan, units, facts } = workflow;
    const isHandedOn = job.workflows.some((one) => !isEnded(one) && one.facts.after.includes(facts.name));
    const wanted = isHandedOn && workflow.keptBytes !== undefined ? [...units] : [];
    if (plan !== undefined && (isHandedOn || !isEnded(workflow))) wanted.push(plan);
    return wanted.filter((unit) => unit.end !== undefined && unit.output === undefined && unit.end.outputBytes > 0);
  });
}
