/**
 * `npm start`: a cluster of real processes, a load test on it with a live view, its report, and what to type next. With
 * `--exit` it ends with the exit code of the run, which makes it a check of everything at once.
 */
import { banner, type DevFlags, runDev } from './dev.ts';
import type { SubmissionFlags } from './job-submission.ts';
import { sampleRun } from './sample-run.ts';
import { print, say } from './terminal.ts';

export type StartFlags = DevFlags & Pick<SubmissionFlags, 'duration' | 'vus'> & { readonly exit: boolean };

export async function start(flags: StartFlags): Promise<number> {
  say('starting a cluster on this machine, every node a process of its own ...');
  const startedMs = Date.now();
  return await runDev(flags, async (cluster) => {
    const seconds = ((Date.now() - startedMs) / 1_000).toFixed(1);
    say(`${cluster.nodes.length} processes know each other after ${seconds} s; console: ${cluster.admin.addr}`);
    const exitCode = await sampleRun(cluster, flags);
    if (flags.exit) return exitCode;
    print(`\n${banner(cluster)}`);
    return undefined;
  });
}
