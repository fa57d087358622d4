/**
 * Handle of one job: progress, result, report, cancel. The job runs on without it; another session can open it by id.
 */
import { RemusterError } from '../base/errors.ts';
import {
  type JobOutcome,
  type JobProgress,
  type JobView,
  type JobStatus,
  isTerminalStatus,
} from '../jobs/job-types.ts';
import type { ItemFailure } from '../jobs/report/item-failures.ts';
import type { Report } from '../jobs/report/report.ts';
import type { WorkflowFailures } from '../jobs/report/report-failures.ts';
import { type JobFailure, createJobFailure } from './job-failure.ts';
import type { JobRequests } from './job-requests.ts';

export type Job = {
  readonly id: string;
  /**
   * What there is to say now, and again with each change; the last one is that of a job that is over. Whoever reads
   * slowly gets fewer of them. It outlives the loss of nodes and leaders.
   */
  progress(): AsyncGenerator<JobProgress, void, undefined>;
  /** Waits for the end. By name of the workflows, what they gave. Throws a JobFailure unless the job is COMPLETED. */
  result(): Promise<Readonly<Record<string, unknown>>>;
  /**
   * Waits for the end, however the job ends, and yields what became of each item of a batch, in order; items that never
   * ended are left out. Without kept results only the failed items are known, at most 1,000; of a search (`first: true`) also the one
   * that was found. `workflow` is its name,
   * where the job has several batches.
   */
  results(workflow?: string): AsyncGenerator<ItemResult, void, undefined>;
  /** Waits for the end. Counts, latencies, thresholds and what went wrong, however it ended. */
  report(): Promise<Report>;
  /** Waits for the end, and for nothing else. */
  end(): Promise<JobOutcome>;
  show(): Promise<JobView>;
  status(): Promise<JobStatus>;
  /** Ends when the managers have noted it; `progress` tells when nothing of it runs any more. */
  cancel(): Promise<JobStatus>;
};

/** What became of one item. */
export type ItemResult = { readonly index: number; readonly value: unknown } | ItemFailure;

/** Of a result in one piece or, if it is large, cut into several: together their `json` is that one piece. */
type ResultAnswer =
  | { readonly results: Readonly<Record<string, unknown>> }
  | { readonly failures: readonly WorkflowFailures[] }
  | { readonly part: number; readonly parts: number; readonly json: string };

const resultPartsMax = 10_000;

export function jobHandle(orders: JobRequests, id: string): Job {
  const words = { jobId: id };
  const show = async (): Promise<JobView> => (await orders.send('show', words)) as JobView;
  const progress = (): AsyncGenerator<JobProgress, void, undefined> => progressUpdates(orders, id);
  const ended = async (): Promise<JobOutcome> => {
    for (;;) {
      const end = (await orders.send('watch', { ...words, end: true, waitMs: orders.longPollMs })) as JobOutcome;
      if (isTerminalStatus(end.status)) return end;
    }
  };
  return {
    id,
    progress,
    result: async () => {
      const { status, error } = await ended();
      if (status !== 'COMPLETED') throw await jobFailure(orders, { jobId: id, status, ...(error && { error }) });
      return (await inOnePiece<JobResults>(orders, 'result', words)).results;
    },
    results: async function* (workflow) {
      await ended();
      const name = await batchName(orders, id, workflow);
      const { results } = await inOnePiece<JobResults>(orders, 'result', { ...words, workflow: name, oneByOne: true });
      yield* (results[name] ?? []) as readonly ItemResult[];
    },
    report: async () => {
      await ended();
      return (await orders.send('report', words)) as Report;
    },
    end: ended,
    show,
    status: async () => (await show()).status,
    cancel: async () => ((await orders.send('cancel', words)) as { status: JobStatus }).status,
  };
}

async function* progressUpdates(orders: JobRequests, jobId: string): AsyncGenerator<JobProgress, void, undefined> {
  for (let afterVersion = 0; ;) {
    const progress = (await orders.send('watch', { jobId, afterVersion, waitMs: orders.longPollMs })) as JobProgress;
    const isEnd = isTerminalStatus(progress.status);
    // Versions of another leader may be lower: any other one is news.
    if (progress.version !== afterVersion || isEnd) yield progress;
    if (isEnd) return;
    afterVersion = progress.version;
  }
}

type JobResults = { readonly results: Readonly<Record<string, unknown>> };

async function inOnePiece<T>(orders: JobRequests, verb: 'result' | 'failures', words: object): Promise<T> {
  const first = (await orders.send(verb, words)) as ResultAnswer;
  if (!('json' in first)) return first as T;
  const texts = [first.json];
  if (first.parts > resultPartsMax) throw new RemusterError('TOO_LARGE', `the result has ${first.parts} parts`);
  for (let part = 1; part < first.parts; part++) {
    const next = (await orders.send(verb, { ...words, part })) as ResultAnswer;
    if (!('json' in next)) throw new RemusterError('MALFORMED', 'a part of a result is missing');
    texts.push(next.json);
  }
  return JSON.parse(texts.join('')) as T;
}

/** The failed items of a job that is over. A batch lists at most 1,000 of them. */
async function jobFailure(orders: JobRequests, outcome: JobOutcome): Promise<JobFailure> {
  const words = { jobId: outcome.jobId };
  const { totals } = (await orders.send('show', words)) as JobView;
  const { failures } = await inOnePiece<{ failures: readonly WorkflowFailures[] }>(orders, 'failures', words);
  return createJobFailure(outcome, totals, failures);
}

async function batchName(orders: JobRequests, jobId: string, wanted: string | undefined): Promise<string> {
  const { workflows } = (await orders.send('show', { jobId })) as JobView;
  const names = workflows.filter(({ style }) => style === 'batch').map(({ name }) => name);
  const name = wanted ?? (names.length === 1 ? names[0] : undefined);
  if (name !== undefined && names.includes(name)) return name;
  const what = wanted === undefined ? `${names.length} batches` : `no batch called ${JSON.stringify(wanted)}`;
  throw new RemusterError('BAD_ARGUMENT', `job ${jobId} has ${what}: name one of ${names.join(', ') || '(none)'}`);
}
