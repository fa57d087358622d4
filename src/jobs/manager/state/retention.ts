/**
 * Deletes the records of evicted jobs. Job ids are in the order of submission, so one range deletion covers many
 * neighbours. Never touches an open job.
 */
import type { KeyRange } from '../../../base/registry.ts';
import { jobKeys, jobRanges } from '../../job-keys.ts';
import { finishUnitNumber } from '../../unit-spec.ts';
import type { JobStore } from './job-store.ts';
import type { ManagedJob } from '../model/managed-job.ts';
import type { ManagerState } from './manager-state.ts';

export function deleteOldJobs({ commits, jobs: store }: Pick<ManagerState, 'commits' | 'jobs'>, more = 0): void {
  const jobs = store.evictFinished(more);
  if (jobs.length === 0) return;
  for (const [first, last] of neighbours(store, jobs)) {
    for (const keyOf of [jobKeys.job, jobKeys.state])
      commits.removeRange({ from: keyOf(first.id), to: `${keyOf(last.id)}\0` });
  }
  for (const job of jobs) {
    if (job.outOfLineBytes > 0) for (const range of resultRanges(job)) commits.removeRange(range, true);
    if (job.hasBlocks) commits.removeRange(jobRanges.unitBlocksOf(job.id), true);
  }
}

/** One range for a job with few units, else two per workflow, because a unit may have several keys. */
function resultRanges({ id, isInline, workflows }: ManagedJob): readonly KeyRange[] {
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

/** First and last of each group of jobs with no other job between them. */
function neighbours(store: JobStore, jobs: readonly ManagedJob[]): readonly (readonly [ManagedJob, ManagedJob])[] {
  const inOrder = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const others = store.idsBetween(inOrder[0]?.id ?? '', inOrder.at(-1)?.id ?? '');
  const groups: [ManagedJob, ManagedJob][] = [];
  let at = 0;
  for (const job of inOrder) {
    const before = at;
    while (at < others.length && (others[at] as string) < job.id) at += 1;
    const group = groups.at(-1);
    if (group !== undefined && at === before) group[1] = job;
    else groups.push([job, job]);
  }
  return groups;
}
