/** Builds the views of a job on request, from recorded state and live progress. Changes nothing but the rate sample. */
import {
  type AttemptView,
  type JobOutcome,
  type JobProgress,
  type JobRow,
  type JobView,
  type WorkflowView,
  isTerminalStatus,
} from '../../job-types.ts';
import { averageRate } from '../../report/report.ts';
import { jobElapsedMs, workflowElapsedMs } from '../model/elapsed-times.ts';
import { nameOf } from '../submission/job-factory.ts';
import {
  type ManagedJob,
  type ManagedWorkflow,
  allUnits,
  isWorkflowEnded,
  itemCountsOf,
} from '../model/managed-job.ts';

/** Attempts that are shown of one workflow: all that went wrong, and the latest of the others. */
const attemptsShownMax = 200;
const paceMs = 1_000;

export type ViewContext = {
  readonly nowMs: number;
  readonly managerMs: number;
  readonly dc: string;
  readonly queue: JobView['queue'];
};

export function jobViewOf(job: ManagedJob, { dc, queue, nowMs }: ViewContext, timeoutMs: number): JobView {
  const totals = totalsOf(job, true);
  return {
    ...{ jobId: job.id, name: nameOf(job), status: job.recordedStatus, submitter: job.submitter },
    ...{ priority: job.request.priority ?? 0, submittedAtMs: job.submittedWallMs },
    ...{ startedAtMs: job.startedWallMs ?? null, endedAtMs: job.endedWallMs ?? null },
    timeoutMs: job.request.timeoutMs ?? timeoutMs,
    queue,
    workflows: job.workflows.map((workflow) => workflowShown(workflow, nowMs)),
    datacenters: [{ dc, status: job.recordedStatus }],
    totals,
    ...(job.errorCode === undefined ? {} : { error: { code: job.errorCode, message: job.errorMessage ?? '' } }),
  };
}

/** All that whoever waits for the end has to know. */
export function jobOutcomeOf(job: ManagedJob): JobOutcome {
  const error = job.errorCode === undefined ? {} : { error: { code: job.errorCode, message: job.errorMessage ?? '' } };
  return { jobId: job.id, status: job.recordedStatus, ...error };
}

export function jobRowOf(job: ManagedJob): JobRow {
  return {
    ...{ jobId: job.id, name: nameOf(job), status: job.recordedStatus, submitter: job.submitter },
    ...{ submittedAtMs: job.submittedWallMs, endedAtMs: job.endedWallMs ?? null },
    ...totalsOf(job, true),
  };
}

export function jobProgressOf(
  job: ManagedJob,
  { nowMs, managerMs, queue }: ViewContext,
  latencyMs: JobProgress['latencyMs'],
): JobProgress {
  const workflows = job.workflows.map((workflow) => {
    const { attempts: _attempts, error: _error, style: _style, ...rest } = workflowShown(workflow, nowMs);
    return rest;
  });
  const workers = new Set<string>();
  for (const workflow of job.workflows)
    for (const unit of allUnits(workflow)) if (unit.assignment !== undefined) workers.add(unit.assignment.worker.name);
  const elapsedMs = jobElapsedMs(job, managerMs);
  const totals = totalsOf(job, true);
  return {
    ...{ jobId: job.id, version: job.version, status: job.recordedStatus },
    ...{ elapsedMs, ...totals },
    ratePerSecond: isTerminalStatus(job.recordedStatus)
      ? averageRate(totals.completed + totals.failed, elapsedMs)
      : runningRate(workflows),
    ...{ latencyMs, queue, workflows, workers: [...workers].toSorted() },
    incidents: incidentViewsOf(job),
  };
}

export function incidentViewsOf(job: ManagedJob): JobProgress['incidents'] {
  return job.incidents.map(({ wallMs, type, node, effect }) => ({
    ...{ time: new Date(wallMs).toISOString(), type, node, effect },
  }));
}

export function attemptViewsOf(workflow: ManagedWorkflow): readonly AttemptView[] {
  const all: AttemptView[] = [];
  for (const unit of allUnits(workflow))
    for (const { name, fence, outcome, attempt } of unit.attempts)
      all.push({ worker: name, cores: 1, fence: String(fence), outcome, unit: unit.number, attempt });
  if (all.length <= attemptsShownMax) return all;
  const wrong = all.filter(({ outcome }) => outcome !== 'completed' && outcome !== 'running');
  const others = all.filter(({ outcome }) => outcome === 'completed' || outcome === 'running');
  return [...wrong, ...others.slice(-attemptsShownMax)].slice(0, attemptsShownMax);
}

function workflowShown(workflow: ManagedWorkflow, nowMs: number): WorkflowView {
  const { job, index, facts, status, units, done, errorCode: code, errorMessage } = workflow;
  let running = 0;
  for (const { assignment } of units) if (assignment !== undefined) running += 1;
  const error = code === undefined ? {} : { error: { code, message: errorMessage ?? '' } };
  return {
    ...{ id: `${job.id}/${index}`, name: facts.name, style: facts.style, status, attempts: attemptViewsOf(workflow) },
    ...itemCountsOf(workflow, !isTerminalStatus(job.status)),
    ratePerSecond: rateOf(workflow, nowMs),
    units: { total: units.length, done, running },
    ...error,
  };
}

function totalsOf(job: ManagedJob, withLive: boolean): { readonly completed: number; readonly failed: number } {
  let [completed, failed] = [0, 0];
  for (const workflow of job.workflows) {
    const counts = itemCountsOf(workflow, withLive && !isTerminalStatus(job.status));
    completed += counts.completed;
    failed += counts.failed;
  }
  return { completed, failed };
}

/** Of those that run now: what has ended adds nothing to the present rate. */
function runningRate(workflows: JobProgress['workflows']): number {
  let rate = 0;
  for (const { status, ratePerSecond } of workflows) if (status === 'RUNNING') rate += ratePerSecond;
  return rate;
}

/** Of about the last second; over all of its time when it is over. */
function rateOf(workflow: ManagedWorkflow, nowMs: number): number {
  const { pace } = workflow;
  const { completed, failed } = itemCountsOf(workflow, true);
  const ended = completed + failed;
  if (isWorkflowEnded(workflow)) return averageRate(ended, workflowElapsedMs(workflow));
  const passedMs = nowMs - pace.atMs;
  if (passedMs < paceMs) return pace.ratePerSecond;
  // After a while in which nobody asked, the time in between tells too little to be called the present rate; it is all there is.
  const ratePerSecond = averageRate(Math.max(0, ended - pace.ended), passedMs);
  workflow.pace = { atMs: nowMs, ended, ratePerSecond };
  return ratePerSecond;
}
