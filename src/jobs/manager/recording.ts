/** A job as it is recorded. The other way, from records to memory, is in restoring.ts. */
import type { JobRecord, StateRecord, UnitRecord, WorkflowRecord } from '../records/job-record.ts';
import type { Attempt, Job, Unit, Workflow } from './model.ts';

/** Attempts that do not count, of one unit. */
const othersMax = 8;

export function jobRecordOf(job: Job): JobRecord {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, words } = job;
  return { submitter, submittedWallMs, submittedMs, seed, key, hash, words, state: stateRecordOf(job) };
}

export function stateRecordOf(job: Job): StateRecord {
  const { status, startedWallMs, endedWallMs, startedMs, endedMs, code, why, incidents } = job;
  const workflows = job.workflows.map(workflowRecordOf);
  return { status, startedWallMs, endedWallMs, startedMs, endedMs, code, why, workflows, incidents };
}

/** What is left when all of it does not fit: how things stand, and less of how they came to be so. */
export function slimStateOf(job: Job): StateRecord {
  const state = stateRecordOf(job);
  const slimUnit = (unit: UnitRecord): UnitRecord => Object.assign(unit, { attempts: unit.attempts.slice(-1) });
  const workflows = state.workflows.map((workflow) =>
    Object.assign(workflow, { why: undefined, inline: workflow.inline.map(slimUnit) }),
  );
  return { ...state, workflows, incidents: [] };
}

export function unitRecordOf({ number, state, attempts, end }: Unit): UnitRecord {
  const recorded = state === 'running' || state === 'storing' ? 'given' : state;
  return { unit: number, state: recorded, attempts, end: state === 'storing' ? undefined : end };
}

function workflowRecordOf(workflow: Workflow): WorkflowRecord {
  const { status, phase, startedMs, items, code, why, plan, finish, units, found, job } = workflow;
  const inline: UnitRecord[] = [];
  for (const unit of [plan, finish]) if (unit !== undefined) inline.push(unitRecordOf(unit));
  if (job.isInline) for (const unit of units) inline.push(unitRecordOf(unit));
  return { status, phase, startedMs, units: units.length, items, code, why, inline, found };
}

/** All that count; of the others the latest. */
export function keptAttempts(attempts: Attempt[]): Attempt[] {
  if (attempts.length <= othersMax) return attempts;
  let spare = -othersMax;
  for (const attempt of attempts) if (isOther(attempt)) spare += 1;
  return attempts.filter((attempt) => {
    if (spare <= 0 || !isOther(attempt)) return true;
    spare -= 1;
    return false;
  });
}

function isOther({ outcome }: Attempt): boolean {
  return outcome === 'refused' || outcome === 'returned';
}
