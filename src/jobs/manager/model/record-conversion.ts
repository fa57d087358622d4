/** Converts jobs in memory to records; job-restore.ts is the reverse. Never writes. */
import type { JobRecord, JobStateRecord, UnitRecord, WorkflowRecord } from '../../records/job-record.ts';
import type { Attempt, ManagedJob, ManagedUnit, ManagedWorkflow } from './managed-job.ts';

/** Attempts in a record that do not count against `maxRetries`. */
const othersMax = 8;

export function toJobRecord(job: ManagedJob): JobRecord {
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson } = job;
  return { submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson, state: toJobStateRecord(job) };
}

export function toJobStateRecord(job: ManagedJob): JobStateRecord {
  const { status, startedWallMs, endedWallMs, startedMs, endedMs, incidents } = job;
  const { errorCode: code, errorMessage: message } = job;
  const workflows = job.workflows.map(workflowRecordOf);
  return { status, startedWallMs, endedWallMs, startedMs, endedMs, code, message, workflows, incidents };
}

/** For a state above the size limit: every status, but only the last attempts, without messages and incidents. */
export function toSlimJobState(job: ManagedJob): JobStateRecord {
  const state = toJobStateRecord(job);
  const slimUnit = (unit: UnitRecord): UnitRecord => Object.assign(unit, { attempts: unit.attempts.slice(-1) });
  const workflows = state.workflows.map((workflow) =>
    Object.assign(workflow, { message: undefined, inline: workflow.inline.map(slimUnit) }),
  );
  return { ...state, workflows, incidents: [] };
}

export function toUnitRecord({ number, state, attempts, end }: ManagedUnit): UnitRecord {
  const recorded = state === 'running' || state === 'storing' ? 'assigned' : state;
  return { unit: number, state: recorded, attempts, end: state === 'storing' ? undefined : end };
}

function workflowRecordOf(workflow: ManagedWorkflow): WorkflowRecord {
  const {
    status,
    phase,
    startedMs,
    endedMs,
    items,
    errorCode: code,
    errorMessage: message,
    plan,
    finish,
    units,
    foundUnit: found,
    job,
  } = workflow;
  const inline: UnitRecord[] = [];
  for (const unit of [plan, finish]) if (unit !== undefined) inline.push(toUnitRecord(unit));
  if (job.isInline) for (const unit of units) inline.push(toUnitRecord(unit));
  return { status, phase, startedMs, units: units.length, items, code, message, inline, found, endedMs };
}

/** Keeps all attempts that count, and the latest of the others. */
export function prunedAttempts(attempts: Attempt[]): Attempt[] {
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
