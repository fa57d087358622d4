/**
 * Removes what the registry has of jobs that are forgotten. Jobs are named in the order of their submission, so those
 * that go together are mostly neighbours, and one deletion takes many of them.
 */
import { jobKeys, jobRanges } from '../keys.ts';
import type { Book } from './book.ts';
import type { Job } from './model.ts';
import type { Office } from './office.ts';

export function forgetOld({ ledger, book }: Pick<Office, 'ledger' | 'book'>): void {
  const jobs = book.takeOldest();
  if (jobs.length === 0) return;
  for (const [first, last] of neighbours(book, jobs)) {
    for (const keyOf of [jobKeys.job, jobKeys.state])
      ledger.removeRange({ from: keyOf(first.id), to: `${keyOf(last.id)}\0` });
  }
  for (const { id, bytesApart, hasBlocks } of jobs) {
    if (bytesApart > 0) ledger.removeRange(jobRanges.endsOf(id));
    if (hasBlocks) ledger.removeRange(jobRanges.blocksOf(id));
  }
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
