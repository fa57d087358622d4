/**
 * Removes what the registry has of jobs that are forgotten. Jobs are named in the order of their submission, so those
 * that go together are mostly neighbours, and one deletion takes many of them.
 */
import type { KeyRange } from '../../base/registry.ts';
import { jobKeys, jobRanges } from '../keys.ts';
import { finishUnit } from '../unit-words.ts';
import type { Book } from './book.ts';
import type { Job } from './model.ts';
import type { Office } from './office.ts';

export function forgetOld({ ledger, book }: Pick<Office, 'ledger' | 'book'>, more = 0): void {
  const jobs = book.takeOldest(more);
  if (jobs.length === 0) return;
  for (const [first, last] of neighbours(book, jobs)) {
    for (const keyOf of [jobKeys.job, jobKeys.state])
      ledger.removeRange({ from: keyOf(first.id), to: `${keyOf(last.id)}\0` });
  }
  for (const job of jobs) {
    if (job.bytesApart > 0) for (const range of endsOf(job)) ledger.removeRange(range, true);
    if (job.hasBlocks) ledger.removeRange(jobRanges.blocksOf(job.id), true);
  }
}

/** All of it for a job with few units; by halves of its workflows for others: a unit may have left several keys. */
function endsOf({ id, isInline, workflows }: Job): readonly KeyRange[] {
  const all = jobRanges.endsOf(id);
  if (isInline) return [all];
  return workflows.flatMap(({ index, units }) => {
    const from = jobKeys.end(id, index, 0, 's', 0).slice(0, -4);
    const middle = jobKeys.end(id, index, Math.ceil(units.length / 2), 's', 0).slice(0, -4);
    const to = `${jobKeys.end(id, index, finishUnit, 's', 0).slice(0, -4)}~`;
    return [
      { from, to: middle },
      { from: middle, to },
    ].filter((range) => range.from < range.to);
  });
}

/** First and last of each run of jobs with no other job between them. */
function neighbours(book: Book, jobs: readonly Job[]): readonly (readonly [Job, Job])[] {
  const inOrder = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const others = book.between(inOrder[0]?.id ?? '', inOrder.at(-1)?.id ?? '');
  const runs: [Job, Job][] = [];
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
