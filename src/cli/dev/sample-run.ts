/** The sample of `npm start`: a load test on a dev cluster, against a target process. */
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

/** The exit code of the run. */
export async function runSample(
  cluster: DevCluster,
  flags: Pick<SubmissionFlags, 'duration' | 'vus'>,
): Promise<number> {
  const target = spawn(process.execPath, [fileURLToPath(entryUrl(import.meta.url, 'sample-target-main'))], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  try {
    const url = await urlOf(target);
    printNotice(`a shop at ${url}; examples/checkout.ts is its load test`);
    const submission = await prepareSubmission(sampleFile, { ...flags, env: [`TARGET=${url}`] });
    // If the first one dies, another one is asked.
    const site = new JobHttpClient(cluster.nodes.map((node) => cluster.targetOf(node)));
    const { jobId } = await submitPrepared(site, submission);
    const exitCode = await followToEnd(site, jobId, submission, { output: 'table' });
    const { total } = (await getJson({ addr: url, token: undefined }, '/count')) as { readonly total: number };
    printData(`\nThe shop itself counted ${formatCount(total)} requests, one of them from setup.`);
    return exitCode;
  } finally {
    target.stdin?.end();
    target.kill();
  }
}

async function urlOf(target: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const failed = (why: string): void => reject(new RemusterError('DEADLINE', `the sample target ${why}`));
  const timer = setTimeout(() => failed(`was not ready after ${readyMs} ms`), readyMs);
  let text = '';
  target.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const end = text.indexOf('\n');
    if (end >= 0) resolve((JSON.parse(text.slice(0, end)) as { url: string }).url);
  });
  target.once('exit', () => failed('has ended'));
  target.once('error', ({ message }) => failed(`cannot be started: ${message}`));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
