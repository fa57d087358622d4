/** Jobs as people and programs see them. Made when somebody asks, from what is recorded and, for numbers, from progress. */
import {
  type AttemptShown,
  type JobEnd,
  type JobProgress,
  type JobRow,
  type JobShown,
  type WorkflowShown,
  isOver,
} from '../job-words.ts';
import { nameOf } from './making.ts';
import { type Job, type Workflow, countsOf, unitsOf } from './model.ts';

/** Attempts that are shown of one workflow: all that went wrong, and the latest of the others. */
const attemptsShownMax = 200;
const paceMs = 1_000;

export type ShownParts = {
  readonly nowMs: number;
  readonly managerMs: number;
  readonly dc: string;
  readonly queue: JobShown['queue'];
};

export function jobShown(job: Job, { dc, queue, nowMs }: ShownParts, timeoutMs: number): JobShown {
  const totals = totalsOf(job, true);
  return {
    ...{ jobId: job.id, name: nameOf(job), status: job.shown, submitter: job.submitter },
    ...{ priority: job.request.priority ?? 0, submittedAtMs: job.submittedWallMs },
    ...{ startedAtMs: job.startedWallMs ?? null, endedAtMs: job.endedWallMs ?? null },
    timeoutMs: job.request.timeoutMs ?? timeoutMs,
    queue,
    workflows: job.workflows.map((workflow) => workflowShown(workflow, nowMs)),
    datacenters: [{ dc, status: job.shown }],
    totals,
    ...(job.code === undefined ? {} : { error: { code: job.code, message: job.why ?? '' } }),
  };
}

/** All that whoever waits for the end has to know. */
export function jobEnd(job: Job): JobEnd {
  const error = job.code === undefined ? {} : { error: { code: job.code, message: job.why ?? '' } };
  return { jobId: job.id, status: job.shown, ...error };
}

export function jobRow(job: Job): JobRow {
  return {
    ...{ jobId: job.id, name: nameOf(job), status: job.shown, submitter: job.submitter },
    ...{ submittedAtMs: job.submittedWallMs, endedAtMs: job.endedWallMs ?? null },
    ...totalsOf(job, true),
  };
}

export function jobProgress(
  job: Job,
  { nowMs, managerMs, queue }: ShownParts,
  latencyMs: JobProgress['latencyMs'],
): JobProgress {
  const workflows = job.workflows.map((workflow) => {
    const { attempts: _attempts, error: _error, ...rest } = workflowShown(workflow, nowMs);
    return rest;
  });
  const workers = new Set<string>();
  for (const workflow of job.workflows)
    for (const unit of unitsOf(workflow)) if (unit.run !== undefined) workers.add(unit.run.seat.name);
  let ratePerSecond = 0;
  for (const one of workflows) ratePerSecond += one.ratePerSecond;
  return {
    ...{ jobId: job.id, version: job.version, status: job.shown },
    elapsedMs: Math.max(0, (job.endedMs ?? managerMs) - (job.startedMs ?? job.endedMs ?? managerMs)),
    ...totalsOf(job, true),
    ...{ ratePerSecond, latencyMs, queue, workflows, workers: [...workers].toSorted() },
    incidents: incidentsShown(job),
  };
}

export function incidentsShown(job: Job): JobProgress['incidents'] {
  return job.incidents.map(({ wallMs, type, node, effect }) => ({
    ...{ time: new Date(wallMs).toISOString(), type, node, effect },
  }));
}

export function attemptsShown(workflow: Workflow): readonly AttemptShown[] {
  const all: AttemptShown[] = [];
  for (const unit of unitsOf(workflow))
    for (const { name, fence, outcome, attempt } of unit.attempts)
      all.push({ worker: name, cores: 1, fence: String(fence), outcome, unit: unit.number, attempt });
  if (all.length <= attemptsShownMax) return all;
  const wrong = all.filter(({ outcome }) => outcome !== 'completed' && outcome !== 'running');
  const others = all.filter(({ outcome }) => outcome === 'completed' || outcome === 'running');
  return [...wrong, ...others.slice(-attemptsShownMax)].slice(0, attemptsShownMax);
}

function workflowShown(workflow: Workflow, nowMs: number): WorkflowShown {
  const { job, index, facts, status, units, done, code, why } = workflow;
  let running = 0;
  for (const { run } of units) if (run !== undefined) running += 1;
  const error = code === undefined ? {} : { error: { code, message: why ?? '' } };
  return {
    ...{ id: `${job.id}/${index}`, name: facts.name, status, attempts: attemptsShown(workflow) },
    ...countsOf(workflow, !isOver(job.status)),
    ratePerSecond: rateOf(workflow, nowMs),
    units: { total: units.length, done, running },
    ...error,
  };
}

function totalsOf(job: Job, withLive: boolean): { readonly completed: number; readonly failed: number } {
  let [completed, failed] = [0, 0];
  for (const workflow of job.workflows) {
    const counts = countsOf(workflow, withLive && !isOver(job.status));
    completed += counts.completed;
    failed += counts.failed;
  }
  return { completed, failed };
}

/** Of about the last second; over all of its time when it is over. */
function rateOf(workflow: Workflow, nowMs: number): number {
  const { pace, job } = workflow;
  const { completed } = countsOf(workflow, true);
  if (isOver(job.status)) {
    const spentMs = (job.endedMs ?? 0) - (workflow.startedMs ?? job.endedMs ?? 0);
    return spentMs <= 0 ? 0 : round((completed * 1_000) / spentMs);
  }
  const passedMs = nowMs - pace.atMs;
  if (passedMs < paceMs) return pace.ratePerSecond;
  // After a while in which nobody asked, the time in between tells too little to be called the present rate; it is all there is.
  const ratePerSecond = round((Math.max(0, completed - pace.completed) * 1_000) / passedMs);
  workflow.pace = { atMs: nowMs, completed, ratePerSecond };
  return ratePerSecond;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
