/**
 * Handle of one job: progress, result, report, cancel. The job runs on without it; another session can open it by id.
 */
import { RemusterError, parseErrorCode } from '../base/errors.ts';
import {
  type JobOutcome,
  type JobProgress,
  type JobView,
  type JobStatus,
  isTerminalStatus,
} from '../jobs/job-types.ts';
import type { Report } from '../jobs/report/report.ts';
import type { JobRequests } from './job-requests.ts';

export type Job = {
  readonly id: string;
  /**
   * What there is to say now, and again with each change; the last one is that of a job that is over. Whoever reads
   * slowly gets fewer of them. It outlives the loss of nodes and leaders.
   */
  progress(): AsyncGenerator<JobProgress, void, undefined>;
  /** Waits for the end. By name of the workflows, what they gave. Throws the error of a job that did not complete. */
  result(): Promise<Readonly<Record<string, unknown>>>;
  /** Waits for the end. Counts, latencies, thresholds and what went wrong, however it ended. */
  report(): Promise<Report>;
  /** Waits for the end, and for nothing else. */
  end(): Promise<JobOutcome>;
  show(): Promise<JobView>;
  status(): Promise<JobStatus>;
  /** Ends when the managers have noted it; `progress` tells when nothing of it runs any more. */
  cancel(): Promise<JobStatus>;
};

/** Of a result in one piece or, if it is large, cut into several: together their `json` is that one piece. */
type ResultAnswer =
  | { readonly results: Readonly<Record<string, unknown>> }
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
      if (status !== 'COMPLETED') throw jobError(id, status, error);
      return await resultOf(orders, id);
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

async function resultOf(orders: JobRequests, jobId: string): Promise<Readonly<Record<string, unknown>>> {
  const first = (await orders.send('result', { jobId })) as ResultAnswer;
  if ('results' in first) return first.results;
  const texts = [first.json];
  if (first.parts > resultPartsMax) throw new RemusterError('TOO_LARGE', `the result has ${first.parts} parts`);
  for (let part = 1; part < first.parts; part++) {
    const next = (await orders.send('result', { jobId, part })) as ResultAnswer;
    if (!('json' in next)) throw new RemusterError('MALFORMED', 'a part of a result is missing');
    texts.push(next.json);
  }
  return (JSON.parse(texts.join('')) as Extract<ResultAnswer, { readonly results: unknown }>).results;
}

function jobError(id: string, status: JobStatus, error: JobOutcome['error']): RemusterError {
  if (error !== undefined) return new RemusterError(parseErrorCode(error.code), error.message);
  const code = status === 'CANCELLED' ? 'CANCELLED' : status === 'TIMEOUT' ? 'WORKFLOW_TIMEOUT' : 'WORKFLOW_FAILED';
  return new RemusterError(code, `the job ${id} ended as ${status}`);
}
