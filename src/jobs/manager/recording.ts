/** A job as it is recorded. The other way, from records to memory, is in restoring.ts. */
import {
  type JobRecord,
  type StateRecord,
  type UnitRecord,
  type WorkflowRecord,
  attemptsKeptMax,
} from '../records/job-record.ts';
import type { Attempt, Job, Unit, Workflow } from './model.ts';

export function jobRecordOf(job: Job): JobRecord {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, words } = job;
  return { submitter, submittedWallMs, submittedMs, seed, key, hash, words, state: stateRecordOf(job) };
}

export function stateRecordOf(job: Job): StateRecord {
  const { status, startedWallMs, endedWallMs, startedMs, endedMs, code, why, incidents } = job;
  const workflows = job.workflows.map(workflowRecordOf);
  return { status, startedWallMs, endedWallMs, startedMs, endedMs, code, why, workflows, incidents };
}

export function unitRecordOf({ number, state, attempts, end }: Unit): UnitRecord {
  const recorded = state === 'running' || state === 'storing' ? 'given' : state;
  return { unit: number, state: recorded, attempts: kept(attempts), end: state === 'storing' ? undefined : end };
}

function workflowRecordOf(workflow: Workflow): WorkflowRecord {
  const { status, phase, startedMs, items, code, why, plan, finish, units, found, job } = workflow;
  const inline: UnitRecord[] = [];
  for (const unit of [plan, finish]) if (unit !== undefined) inline.push(unitRecordOf(unit));
  if (job.isInline) for (const unit of units) inline.push(unitRecordOf(unit));
  return { status, phase, startedMs, units: units.length, items, code, why, inline, found };
}

/** All that count; of the others the latest. */
function kept(attempts: readonly Attempt[]): readonly Attempt[] {
  if (attempts.length <= attemptsKeptMax) return attempts;
  let spare = attempts.length - attemptsKeptMax;
  return attempts.filter(({ outcome }) => {
    const isDropped = spare > 0 && (outcome === 'refused' || outcome === 'returned');
    if (isDropped) spare -= 1;
    return !isDropped;
  });
}
