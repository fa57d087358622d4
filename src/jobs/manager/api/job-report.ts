/**
 * Collects the input of a job report from recorded state and the summaries of attempts that count. An unreadable
 * summary counts as nothing.
 */
import type { AttemptView, JobProgress } from '../../job-types.ts';
import { failuresMax } from '../../report/bounds.ts';
import type { ItemFailure, UnitFailures } from '../../report/item-failures.ts';
import { type Report, latencyPercentiles, buildReport } from '../../report/report.ts';
import { workflowFailures } from '../../report/report-failures.ts';
import { decodeSummary, mergeEncodedCounts } from '../../report/summary-codec.ts';
import { Summary } from '../../report/summary.ts';
import { jobElapsedMs, workflowElapsedMs } from '../model/elapsed-times.ts';
import {
  type ManagedJob,
  type ManagedUnit,
  type ManagedWorkflow,
  itemCountsOf,
  jobDisplayName,
} from '../model/managed-job.ts';
import { attemptViewsOf, incidentViewsOf } from './job-views.ts';

/** Encoded summary by unit. */
export type UnitSummaries = ReadonlyMap<ManagedUnit, Uint8Array>;

/** Failed items by unit; undefined if they are unreadable. */
export type FailuresByUnit = ReadonlyMap<ManagedUnit, UnitFailures | undefined>;

export function jobReportJson(job: ManagedJob, summaries: UnitSummaries, failures: FailuresByUnit): string {
  const report = buildReport({
    ...{ jobId: job.id, name: jobDisplayName(job), status: job.recordedStatus, incidents: incidentViewsOf(job) },
    elapsedMs: jobElapsedMs(job, job.endedMs ?? 0),
    workflows: job.workflows.map((workflow) => ({
      ...{ facts: workflow.facts, status: workflow.status, ...itemCountsOf(workflow, false) },
      summary: mergedOf(workflow, summaries),
      failures: itemFailuresOf(workflow, failures),
      elapsedMs: workflowElapsedMs(workflow),
      ...errorOf(workflow),
    })),
    partial: partialOf(job),
    attempts: job.workflows.flatMap(attemptsOf),
    ...errorOf(job),
  });
  return JSON.stringify(report);
}

/** Units of load tests that a worker got; one without an end was lost with its worker, or reported too late. */
function partialOf({ recordedStatus, workflows }: ManagedJob): Report['partial'] {
  if (recordedStatus !== 'CANCELLED') return null;
  const loads = workflows.filter(({ facts, status }) => facts.load !== undefined && status === 'CANCELLED');
  const units = loads.flatMap((workflow) => workflow.units.filter(({ attempts }) => attempts.length > 0));
  if (units.length === 0) return null;
  return { unitsReported: units.filter(({ end }) => end !== undefined).length, units: units.length };
}

/** One entry per workflow with failed items. */
export function jobFailuresJson(
  job: ManagedJob,
  workflows: readonly ManagedWorkflow[],
  { summaries, failures }: { readonly summaries: UnitSummaries; readonly failures: FailuresByUnit },
): string {
  const lists = workflows.flatMap((workflow) =>
    workflowFailures({
      facts: workflow.facts,
      failed: itemCountsOf(workflow, false).failed,
      summary: mergedOf(workflow, summaries),
      failures: itemFailuresOf(workflow, failures),
    }),
  );
  return JSON.stringify({ jobId: job.id, failures: lists });
}

/** From the current progress, and from ended units whose summary is inline or was merged for a watcher. */
export function liveLatencies(job: ManagedJob): JobProgress['latencyMs'] {
  const all = new Summary();
  for (const workflow of job.workflows) {
    if (workflow.watched === undefined) {
      workflow.watched = new Summary();
      for (const { end } of workflow.units) mergeEncodedCounts(workflow.watched, end?.summary);
    }
    all.mergeCounts(workflow.watched);
    for (const { liveProgress, end } of workflow.units)
      if (end === undefined) mergeEncodedCounts(all, liveProgress?.summary);
  }
  return latencyPercentiles(all);
}

function attemptsOf(workflow: ManagedWorkflow): readonly (AttemptView & { readonly workflow: string })[] {
  const of = { workflow: workflow.facts.name };
  return attemptViewsOf(workflow).map((attempt) => Object.assign(attempt, of));
}

/** In the order of the items. */
function itemFailuresOf({ units }: ManagedWorkflow, failures: FailuresByUnit): readonly ItemFailure[] {
  const items = units.flatMap((unit) => failures.get(unit)?.items ?? []);
  return items.toSorted((a, b) => a.index - b.index).slice(0, failuresMax);
}

function mergedOf({ units }: ManagedWorkflow, summaries: UnitSummaries): Summary | undefined {
  const all = new Summary();
  let isEmpty = true;
  for (const unit of units) {
    const bytes = summaries.get(unit);
    if (bytes === undefined) continue;
    try {
      all.merge(decodeSummary(bytes));
      isEmpty = false;
    } catch {
      // An unreadable summary counts as nothing.
    }
  }
  return isEmpty ? undefined : all;
}

function errorOf({ errorCode: code, errorMessage }: Pick<ManagedJob, 'errorCode' | 'errorMessage'>): {
  readonly error?: { code: string; message: string };
} {
  return code === undefined ? {} : { error: { code, message: errorMessage ?? '' } };
}
