/** Hands over what a report is made of: the job as it is recorded, and the summaries of the attempts that won. */
import type { JobProgress } from '../job-words.ts';
import type { Job } from './model.ts';
import { attemptsShown, incidentsShown } from './shown.ts';

/** Summaries of one workflow, in the order of its units. */
export type SummariesOf = { readonly workflow: number; readonly summaries: readonly Uint8Array[] };

export function reportText(job: Job, summaries: readonly SummariesOf[]): string {
  const attempts = job.workflows.flatMap((workflow) => attemptsShown(workflow));
  return JSON.stringify({
    ...{ schemaVersion: 1, jobId: job.id, status: job.shown },
    elapsedMs: Math.max(0, (job.endedMs ?? 0) - (job.startedMs ?? job.endedMs ?? 0)),
    ...{ attempts, incidents: incidentsShown(job), summaries: summaries.length },
  });
}

/** Of what is known so far. */
export function latenciesOf(_job: Job): JobProgress['latencyMs'] {
  return { p50: 0, p95: 0, p99: 0 };
}
