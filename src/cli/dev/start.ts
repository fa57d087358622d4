/**
 * `npm start`: a cluster of real processes, a load test on it with a live view, its report, and what to type next. With
 * `--exit` it ends with the exit code of the run, which makes it a check of everything at once.
 */
import { banner, type DevFlags, withDevCluster } from './dev.ts';
import type { SubmissionFlags } from '../jobs/job-submission.ts';
import { runSample } from './sample-run.ts';
import { printData, printNotice } from '../output/terminal.ts';

export type StartCommandFlags = DevFlags & Pick<SubmissionFlags, 'duration' | 'vus'> & { readonly exit: boolean };

export async function startCommand(flags: StartCommandFlags): Promise<number> {
  printNotice('starting a cluster on this machine, every node a process of its own ...');
  const startedMs = Date.now();
  return await withDevCluster(flags, async (cluster) => {
    const seconds = ((Date.now() - startedMs) / 1_000).toFixed(1);
    printNotice(`${cluster.nodes.length} processes know each other after ${seconds} s; console: ${cluster.admin.addr}`);
    const exitCode = await runSample(cluster, flags);
    if (flags.exit) return exitCode;
    printData(`\n${banner(cluster)}`);
    return undefined;
  });
}
