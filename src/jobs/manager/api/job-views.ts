/** Builds the views of a job from recorded state and live progress. Changes nothing but the rate sample. */
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
import {
  type ManagedJob,
  type ManagedWorkflow,
  allUnits,
  isWorkflowEnded,
  itemCountsOf,
  jobDisplayName,
} from '../model/managed-job.ts';

/** Attempts in the view of a workflow: failures first, then the latest of the others. */
const attemptsMax = 200;
const rateSampleMs = 1_000;

export type ViewContext = {
  readonly nowMs: number;
  readonly managerClockMs: number;
  readonly dc: string;
  readonly queue: JobView['queue'];
};

export function jobViewOf(job: ManagedJob, { dc, queue, nowMs }: ViewContext, timeoutMs: number): JobView {
  const totals = totalsOf(job, true);
  return {
    ...{ jobId: job.id, name: jobDisplayName(job), status: job.recordedStatus, submitter: job.submitter },
    ...{ priority: job.request.priority ?? 0, submittedAtMs: job.submittedWallMs },
    ...{ startedAtMs: job.startedWallMs ?? null, endedAtMs: job.endedWallMs ?? null },
    timeoutMs: job.request.timeoutMs ?? timeoutMs,
    queue,
    workflows: job.workflows.map((workflow) => workflowViewOf(workflow, nowMs)),
    datacenters: [{ dc, status: job.recordedStatus }],
    totals,
    ...(job.errorCode === undefined ? {} : { error: { code: job.errorCode, message: job.errorMessage ?? '' } }),
  };
}

export function jobOutcomeOf(job: ManagedJob): JobOutcome {
  const error = job.errorCode === undefined ? {} : { error: { code: job.errorCode, message: job.errorMessage ?? '' } };
  return { jobId: job.id, status: job.recordedStatus, ...error };
}

export function jobRowOf(job: ManagedJob): JobRow {
  return {
    ...{ jobId: job.id, name: jobDisplayName(job), status: job.recordedStatus, submitter: job.submitter },
    ...{ submittedAtMs: job.submittedWallMs, endedAtMs: job.endedWallMs ?? null },
    ...totalsOf(job, true),
  };
}

export function jobProgressOf(
  job: ManagedJob,
  { nowMs, managerClockMs, queue }: ViewContext,
  latencyMs: JobProgress['latencyMs'],
): JobProgress {
  const workflows = job.workflows.map((workflow) => {
    const { attempts: _attempts, error: _error, style: _style, ...rest } = workflowViewOf(workflow, nowMs);
    return rest;
  });
  const workers = new Set<string>();
  for (const workflow of job.workflows)
    for (const unit of allUnits(workflow)) if (unit.assignment !== undefined) workers.add(unit.assignment.worker.name);
  const elapsedMs = jobElapsedMs(job, managerClockMs);
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
  if (all.length <= attemptsMax) return all;
  const wrong = all.filter(({ outcome }) => outcome !== 'completed' && outcome !== 'running');
  const others = all.filter(({ outcome }) => outcome === 'completed' || outcome === 'running');
  return [...wrong, ...others.slice(-attemptsMax)].slice(0, attemptsMax);
}

function workflowViewOf(workflow: ManagedWorkflow, nowMs: number): WorkflowView {
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

/** Sum over running workflows; a workflow that has ended adds nothing to the current rate. */
function runningRate(workflows: JobProgress['workflows']): number {
  let rate = 0;
  for (const { status, ratePerSecond } of workflows) if (status === 'RUNNING') rate += ratePerSecond;
  return rate;
}

/** Over about the last second; after the end over the whole duration. */
function rateOf(workflow: ManagedWorkflow, nowMs: number): number {
  const { rateSample } = workflow;
  const { completed, failed } = itemCountsOf(workflow, true);
  const ended = completed + failed;
  if (isWorkflowEnded(workflow)) return averageRate(ended, workflowElapsedMs(workflow));
  const passedMs = nowMs - rateSample.atMs;
  if (passedMs < rateSampleMs) return rateSample.ratePerSecond;
  // After a long time without a request the sample covers that time, because no later one exists.
  const ratePerSecond = averageRate(Math.max(0, ended - rateSample.ended), passedMs);
  workflow.rateSample = { atMs: nowMs, ended, ratePerSecond };
  return ratePerSecond;
}
