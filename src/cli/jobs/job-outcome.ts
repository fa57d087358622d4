/**
 * Fetches the report, results and failures of a job, and maps its status to an exit code. Large results are streamed.
 */
import { RemusterError } from '../../base/errors.ts';
import { type Report, hasFailedThresholds } from '../../jobs/report/report.ts';
import type { WorkflowFailures } from '../../jobs/report/report-failures.ts';
import type { JobStatus } from '../../jobs/job-types.ts';
import { exitFailed, exitInterrupted, exitOk, exitPartial, exitThresholds } from '../command/exit.ts';
import { type JobHttpClient, jobPath, withoutSchemaVersion } from './job-client.ts';
import { withQuery } from '../command/http-client.ts';

type ReplyPart = { readonly part: number; readonly parts: number; readonly json: string };

const resultsPrefix = '{"results":';

/** True if items have completed. */
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

export async function fetchReport(client: JobHttpClient, jobId: string): Promise<Report> {
  return (await client.get(jobPath(jobId, '/report'))) as Report;
}

/** Yields the results as JSON by workflow, in parts: large results are never in memory as a whole. */
export async function* streamResults(client: JobHttpClient, jobId: string, workflow?: string): AsyncGenerator<string> {
  let isFirst = true;
  let last = '';
  // The reply is `{"results":{...}}`, of which only the inner object is yielded.
  for await (const text of fetchParts(client, jobPath(jobId, '/result'), workflow)) {
    if (!isFirst) yield last;
    last = isFirst ? text.slice(resultsPrefix.length) : text;
    isFirst = false;
  }
  yield last.slice(0, -1);
}

export async function fetchFailures(
  client: JobHttpClient,
  jobId: string,
  workflow?: string,
): Promise<readonly WorkflowFailures[]> {
  const texts: string[] = [];
  for await (const text of fetchParts(client, jobPath(jobId, '/failures'), workflow)) texts.push(text);
  return (JSON.parse(texts.join('')) as { readonly failures: readonly WorkflowFailures[] }).failures;
}

/** Yields a reply as JSON, in as many parts as the managers split it into. */
async function* fetchParts(client: JobHttpClient, path: string, workflow: string | undefined): AsyncGenerator<string> {
  const fetchPart = async (part?: number): Promise<object> => {
    const query = {
      ...(workflow === undefined ? {} : { workflow }),
      ...(part === undefined ? {} : { part: String(part) }),
    };
    return withoutSchemaVersion(await client.get(withQuery(path, query)));
  };
  const first = await fetchPart();
  if (!('json' in first)) {
    yield JSON.stringify(first);
    return;
  }
  const { parts, json } = first as ReplyPart;
  yield json;
  for (let part = 1; part < parts; part++) {
    const next = await fetchPart(part);
    if (!('json' in next)) throw new RemusterError('MALFORMED', `part ${part} of ${parts} of the reply is missing`);
    yield (next as ReplyPart).json;
  }
}

export async function fetchResults(client: JobHttpClient, jobId: string, workflow?: string): Promise<unknown> {
  const texts: string[] = [];
  for await (const text of streamResults(client, jobId, workflow)) texts.push(text);
  return JSON.parse(texts.join('')) as unknown;
}
