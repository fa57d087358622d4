/**
 * `npm start`: a dev cluster, a sample load test with a live view, the report. `--exit` ends with the exit code of the
 * run.
 */
import { banner, type DevFlags, withDevCluster } from './dev.ts';
import type { SubmissionFlags } from '../jobs/job-submission.ts';
import { runSample } from './sample-run.ts';
import { printData, printNotice } from '../output/terminal.ts';

export type StartCommandFlags = DevFlags & Pick<SubmissionFlags, 'duration' | 'vus'> & { readonly exit: boolean };

export async function startCommand(flags: StartCommandFlags): Promise<number> {
  printNotice('starting a cluster on this machine, one process per node ...');
  const startedMs = Date.now();
  return await withDevCluster(flags, async (cluster) => {
    const seconds = ((Date.now() - startedMs) / 1_000).toFixed(1);
    const interfaceName = flags.console ? 'console' : 'HTTP interface';
    printNotice(`${cluster.nodes.length} nodes are ready after ${seconds} s; ${interfaceName}: ${cluster.admin.addr}`);
    const exitCode = await runSample(cluster, flags);
    if (flags.exit) return exitCode;
    printData(`\n${banner(cluster, flags)}`);
    return undefined;
  });
}
