/** The sample of `npm start`: a load test that runs on a dev cluster against a sample target process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { RemusterError } from '../../base/errors.ts';
import { entryUrl } from '../../io/system/entry-url.ts';
import { formatCount } from '../output/amounts.ts';
import type { DevCluster } from './dev-cluster.ts';
import { getJson } from '../command/http-client.ts';
import { JobHttpClient } from '../jobs/job-client.ts';
import { type SubmissionFlags, prepareSubmission, submitPrepared } from '../jobs/job-submission.ts';
import { followToEnd } from '../jobs/run.ts';
import { printData, printNotice } from '../output/terminal.ts';

const readyMs = 30_000;
const sampleFile = fileURLToPath(new URL('../../../examples/checkout.ts', import.meta.url));

/** Returns the exit code of the run. */
export async function runSample(
  cluster: DevCluster,
  flags: Pick<SubmissionFlags, 'duration' | 'vus'>,
): Promise<number> {
  const target = spawn(process.execPath, [fileURLToPath(entryUrl(import.meta.url, 'sample-target-main'))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  try {
    const url = await urlOf(target);
    printNotice(`sample target: a shop at ${url}; load test: examples/checkout.ts`);
    const submission = await prepareSubmission(sampleFile, { ...flags, env: [`TARGET=${url}`] });
    // The client fails over to another node if the first one ends.
    const client = new JobHttpClient(cluster.nodes.map((node) => cluster.targetOf(node)));
    const { jobId } = await submitPrepared(client, submission);
    const exitCode = await followToEnd(client, jobId, submission, { output: 'table' });
    const { total } = (await getJson({ addr: url, token: undefined }, '/count')) as { readonly total: number };
    printData(`\nThe shop served ${formatCount(total)} requests, one of them from setup.`);
    return exitCode;
  } finally {
    target.stdin?.end();
    target.kill();
  }
}

async function urlOf(target: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const failed = (why: string): void => reject(new RemusterError('DEADLINE', `the sample target ${why}`));
  const timer = setTimeout(() => failed(`was not ready within ${readyMs} ms`), readyMs);
  let text = '';
  target.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const end = text.indexOf('\n');
    if (end >= 0) resolve((JSON.parse(text.slice(0, end)) as { url: string }).url);
  });
  target.once('exit', () => failed('ended before it was ready'));
  target.once('error', ({ message }) => failed(`cannot start: ${message}`));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
