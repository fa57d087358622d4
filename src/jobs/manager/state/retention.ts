/**
 * Deletes the records of evicted jobs, neighbours in one range: job ids are in the order of submission, so one deletion
 * takes many. Never touches an open job.
 */
import type { KeyRange } from '../../../base/registry.ts';
import { jobKeys, jobRanges } from '../../job-keys.ts';
import { finishUnitNumber } from '../../unit-spec.ts';
import type { JobStore } from './job-store.ts';
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from './manager-state.ts';

export function deleteOldJobs({ commits, jobs: book }: Pick<ManagerState, 'commits' | 'jobs'>, more = 0): void {
  const jobs = book.evictFinished(more);
  if (jobs.length === 0) return;
  for (const [first, last] of neighbours(book, jobs)) {
    for (const keyOf of [jobKeys.job, jobKeys.state])
      commits.removeRange({ from: keyOf(first.id), to: `${keyOf(last.id)}\0` });
  }
  for (const job of jobs) {
    if (job.outOfLineBytes > 0) for (const range of endsOf(job)) commits.removeRange(range, true);
    if (job.hasBlocks) commits.removeRange(jobRanges.unitBlocksOf(job.id), true);
  }
}

/** All of it for a job with few units; by halves of its workflows for others: a unit may have left several keys. */
function endsOf({ id, isInline, workflows }: ManagedJob): readonly KeyRange[] {
  const all = jobRanges.resultsOf(id);
  if (isInline) return [all];
  return workflows.flatMap(({ index, units }) => {
    const from = jobKeys.result(id, index, 0, 's', 0).slice(0, -4);
    const middle = jobKeys.result(id, index, Math.ceil(units.length / 2), 's', 0).slice(0, -4);
    const to = `${jobKeys.result(id, index, finishUnitNumber, 's', 0).slice(0, -4)}~`;
    return [
      { from, to: middle },
      { from: middle, to },
    ].filter((range) => range.from < range.to);
  });
}

/** First and last of each run of jobs with no other job between them. */
function neighbours(book: JobStore, jobs: readonly ManagedJob[]): readonly (readonly [ManagedJob, ManagedJob])[] {
  const inOrder = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const others = book.idsBetween(inOrder[0]?.id ?? '', inOrder.at(-1)?.id ?? '');
  const runs: [ManagedJob, ManagedJob][] = [];
  let at = 0;
  for (const job of inOrder) {
    const before = at;
    while (at < others.length && (others[at] as string) < job.id) at += 1;
    const run = runs.at(-1);
    if (run !== undefined && at === before) run[1] = job;
    else runs.push([job, job]);
  }
  return runs;
}
