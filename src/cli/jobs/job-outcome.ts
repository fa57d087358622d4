/** The end of a job: report, results, exit code. Large results are streamed. */
import { RemusterError } from '../../base/errors.ts';
import { type Report, hasFailedThresholds } from '../../jobs/report/report.ts';
import type { WorkflowFailures } from '../../jobs/report/report-failures.ts';
import type { JobStatus } from '../../jobs/job-types.ts';
import { exitFailed, exitInterrupted, exitOk, exitPartial, exitThresholds } from '../command/exit.ts';
import { type JobHttpClient, jobPath, withoutSchemaVersion } from './job-client.ts';
import { withQuery } from '../command/http-client.ts';

type InParts = { readonly part: number; readonly parts: number; readonly json: string };

const opening = '{"results":';

/** Its results say something: items completed. */
export function hasResults({ status }: Pick<Report, 'status'>): boolean {
  return status === 'COMPLETED' || status === 'PARTIAL';
}

export function exitCodeOfJob({ status, thresholds }: Pick<Report, 'status' | 'thresholds'>): number {
  if (status !== 'COMPLETED') return exitCodes[status] ?? exitFailed;
  return hasFailedThresholds({ thresholds }) ? exitThresholds : exitOk;
}

const exitCodes: Partial<Record<JobStatus, number>> = {
  PARTIAL: exitPartial,
  TIMEOUT: exitPartial,
  CANCELLED: exitInterrupted,
};

export async function fetchReport(site: JobHttpClient, jobId: string): Promise<Report> {
  return (await site.get(jobPath(jobId, '/report'))) as Report;
}

/** JSON by workflow, piece by piece: what is large is never in memory as a whole. */
export async function* streamResults(site: JobHttpClient, jobId: string, workflow?: string): AsyncGenerator<string> {
  let isFirst = true;
  let last = '';
  // Cut out of `{"results":{...}}`, of which only the inner part is wanted.
  for await (const text of pieces(site, jobPath(jobId, '/result'), workflow)) {
    if (!isFirst) yield last;
    last = isFirst ? text.slice(opening.length) : text;
    isFirst = false;
  }
  yield last.slice(0, -1);
}

export async function fetchFailures(
  site: JobHttpClient,
  jobId: string,
  workflow?: string,
): Promise<readonly WorkflowFailures[]> {
  const texts: string[] = [];
  for await (const text of pieces(site, jobPath(jobId, '/failures'), workflow)) texts.push(text);
  return (JSON.parse(texts.join('')) as { readonly failures: readonly WorkflowFailures[] }).failures;
}

/** An answer as JSON, in as many parts as the managers made of it. */
async function* pieces(site: JobHttpClient, path: string, workflow: string | undefined): AsyncGenerator<string> {
  const ask = async (part?: number): Promise<object> => {
    const query = {
      ...(workflow === undefined ? {} : { workflow }),
      ...(part === undefined ? {} : { part: String(part) }),
    };
    return withoutSchemaVersion(await site.get(withQuery(path, query)));
  };
  const first = await ask();
  if (!('json' in first)) {
    yield JSON.stringify(first);
    return;
  }
  const { parts, json } = first as InParts;
  yield json;
  for (let part = 1; part < parts; part++) {
    const next = await ask(part);
    if (!('json' in next)) throw new RemusterError('MALFORMED', 'a part of the result is missing');
    yield (next as InParts).json;
  }
}

export async function fetchResults(site: JobHttpClient, jobId: string, workflow?: string): Promise<unknown> {
  const texts: string[] = [];
  for await (const text of streamResults(site, jobId, workflow)) texts.push(text);
  return JSON.parse(texts.join('')) as unknown;
}
