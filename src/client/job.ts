/**
 * Handle of one job: progress, result, report, cancel. Holds no state of the job, which runs without it; any session
 * can open a handle by id.
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
   * Yields the progress now and after each change, and ends with that of the ended job. A slow reader skips versions.
   * Continues through the loss of nodes and changes of leader.
   */
  progress(): AsyncGenerator<JobProgress, void, undefined>;
  /** Waits for the end and returns the results by workflow name. Throws a JobFailure unless the job is COMPLETED. */
  result(): Promise<Readonly<Record<string, unknown>>>;
  /**
   * Waits for the end of any kind and yields the outcome of each item of a batch, in order, without items that did not
   * end. A batch that keeps no results has only its failed items, at most 1,000, and the one that a search
   * (`first: true`) has found. `workflow` names the batch if the job has several.
   */
  results(workflow?: string): AsyncGenerator<ItemResult, void, undefined>;
  /** Waits for the end of any kind and returns counts, latencies, thresholds and incidents. */
  report(): Promise<Report>;
  /** Waits for the end of any kind. */
  end(): Promise<JobOutcome>;
  show(): Promise<JobView>;
  status(): Promise<JobStatus>;
  /** Resolves when the managers have recorded the cancellation; the job ends later. */
  cancel(): Promise<JobStatus>;
};

/** The outcome of one item. */
export type ItemResult = { readonly index: number; readonly value: unknown } | ItemFailure;

/** A result, or one part of a large one: the `json` of all parts together is the result. */
type ResultReply =
  | { readonly results: Readonly<Record<string, unknown>> }
  | { readonly failures: readonly WorkflowFailures[] }
  | { readonly part: number; readonly parts: number; readonly json: string };

const resultPartsMax = 10_000;

export function jobHandle(requests: JobRequests, id: string): Job {
  const args = { jobId: id };
  const show = async (): Promise<JobView> => (await requests.send('show', args)) as JobView;
  const progress = (): AsyncGenerator<JobProgress, void, undefined> => progressUpdates(requests, id);
  const ended = async (): Promise<JobOutcome> => {
    for (;;) {
      const end = (await requests.send('watch', { ...args, end: true, waitMs: requests.longPollMs })) as JobOutcome;
      if (isTerminalStatus(end.status)) return end;
    }
  };
  return {
    id,
    progress,
    result: async () => {
      const { status, error } = await ended();
      if (status !== 'COMPLETED') throw await jobFailure(requests, { jobId: id, status, ...(error && { error }) });
      return (await readResult<JobResults>(requests, 'result', args)).results;
    },
    results: async function* (workflow) {
      await ended();
      const name = await batchName(requests, id, workflow);
      const { results } = await readResult<JobResults>(requests, 'result', { ...args, workflow: name, oneByOne: true });
      yield* (results[name] ?? []) as readonly ItemResult[];
    },
    report: async () => {
      await ended();
      return (await requests.send('report', args)) as Report;
    },
    end: ended,
    show,
    status: async () => (await show()).status,
    cancel: async () => ((await requests.send('cancel', args)) as { status: JobStatus }).status,
  };
}

async function* progressUpdates(requests: JobRequests, jobId: string): AsyncGenerator<JobProgress, void, undefined> {
  for (let afterVersion = 0; ;) {
    const progress = (await requests.send('watch', {
      jobId,
      afterVersion,
      waitMs: requests.longPollMs,
    })) as JobProgress;
    const isEnd = isTerminalStatus(progress.status);
    // Versions of a new leader may be lower, so any other version is newer.
    if (progress.version !== afterVersion || isEnd) yield progress;
    if (isEnd) return;
    afterVersion = progress.version;
  }
}

type JobResults = { readonly results: Readonly<Record<string, unknown>> };

/** Reads a result and joins its parts. */
async function readResult<T>(requests: JobRequests, verb: 'result' | 'failures', args: object): Promise<T> {
  const first = (await requests.send(verb, args)) as ResultReply;
  if (!('json' in first)) return first as T;
  const texts = [first.json];
  if (first.parts > resultPartsMax)
    throw new RemusterError('TOO_LARGE', `the result has ${first.parts} parts; at most ${resultPartsMax} can be read`);
  for (let part = 1; part < first.parts; part++) {
    const next = (await requests.send(verb, { ...args, part })) as ResultReply;
    if (!('json' in next))
      throw new RemusterError('MALFORMED', `part ${part} of ${first.parts} of the result is missing`);
    texts.push(next.json);
  }
  return JSON.parse(texts.join('')) as T;
}

/** The failure of an ended job with its failed items, of which a batch lists at most 1,000. */
async function jobFailure(requests: JobRequests, outcome: JobOutcome): Promise<JobFailure> {
  const args = { jobId: outcome.jobId };
  const { totals } = (await requests.send('show', args)) as JobView;
  const { failures } = await readResult<{ failures: readonly WorkflowFailures[] }>(requests, 'failures', args);
  return createJobFailure(outcome, totals, failures);
}

async function batchName(requests: JobRequests, jobId: string, wanted: string | undefined): Promise<string> {
  const { workflows } = (await requests.send('show', { jobId })) as JobView;
  const names = workflows.filter(({ style }) => style === 'batch').map(({ name }) => name);
  const name = wanted ?? (names.length === 1 ? names[0] : undefined);
  if (name !== undefined && names.includes(name)) return name;
  const what = wanted === undefined ? `${names.length} batches` : `no batch called ${JSON.stringify(wanted)}`;
  throw new RemusterError('BAD_ARGUMENT', `job ${jobId} has ${what}: name one of ${names.join(', ') || '(none)'}`);
}
