/** The end of a job: report, results, exit code. Large results are streamed. */
import { RemusterError } from '../../base/errors.ts';
import { type Report, hasFailedThresholds } from '../../jobs/report/report.ts';
import type { JobStatus } from '../../jobs/job-types.ts';
import { exitFailed, exitInterrupted, exitOk, exitPartial, exitThresholds } from '../command/exit.ts';
import { type JobHttpClient, jobPath, withoutSchemaVersion } from './job-client.ts';
import { withQuery } from '../command/http-client.ts';

type ResultAnswer =
  | { readonly results: Readonly<Record<string, unknown>> }
  | { readonly part: number; readonly parts: number; readonly json: string };

const opening = '{"results":';

export function exitCodeOfJob({ status, thresholds }: Pick<Report, 'status' | 'thresholds'>): number {
  if (status !== 'COMPLETED') return exitCodes[status] ?? exitFailed;
  return hasFailedThresholds({ thresholds }) ? exitThresholds : exitOk;
}

const exitCodes: Partial<Record<JobStatus, number>> = { TIMEOUT: exitPartial, CANCELLED: exitInterrupted };

export async function fetchReport(site: JobHttpClient, jobId: string): Promise<Report> {
  return (await site.get(jobPath(jobId, '/report'))) as Report;
}

/** JSON by workflow, piece by piece: what is large is never in memory as a whole. */
export async function* streamResults(site: JobHttpClient, jobId: string, workflow?: string): AsyncGenerator<string> {
  const ask = async (part?: number): Promise<ResultAnswer> => {
    const query = {
      ...(workflow === undefined ? {} : { workflow }),
      ...(part === undefined ? {} : { part: String(part) }),
    };
    return withoutSchemaVersion(await site.get(withQuery(jobPath(jobId, '/result'), query))) as ResultAnswer;
  };
  const first = await ask();
  if ('results' in first) {
    yield JSON.stringify(first.results);
    return;
  }
  // Cut out of `{"results":{...}}`, of which only the inner part is wanted.
  const { parts } = first;
  let text = first.json.slice(opening.length);
  for (let part = 1; part < parts; part++) {
    yield text;
    const next = await ask(part);
    if (!('json' in next)) throw new RemusterError('MALFORMED', 'a part of the result is missing');
    text = next.json;
  }
  yield text.slice(0, -1);
}

export async function fetchResults(site: JobHttpClient, jobId: string): Promise<unknown> {
  const texts: string[] = [];
  for await (const text of streamResults(site, jobId)) texts.push(text);
  return JSON.parse(texts.join('')) as unknown;
}
