/** Limits a process to half a core by cgroup quota or by stop and continue. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type CpuLimit = {
  readonly means: string;
  /** Removes the limit from the process. */
  lift(): void;
  /** Removes the cgroup; called after the process has ended. */
  remove(): void;
};

const periodUs = 100_000;
const runMs = 10;
const holdMs = 10;
/** The unit of CPU time in /proc, the same for all kernels. */
const tickMs = 10;

export function limitCpu(pid: number, kill: (signal: 'SIGSTOP' | 'SIGCONT') => void): CpuLimit {
  const name = `remuster-test-${pid}`;
  return (
    quota(pid, join('/sys/fs/cgroup', name), 'cpu.max', `${periodUs / 2} ${periodUs}`, `max ${periodUs}`) ??
    quota(pid, join('/sys/fs/cgroup/cpu', name), 'cpu.cfs_quota_us', String(periodUs / 2), '-1') ??
    stopAndContinue(kill)
  );
}

function quota(pid: number, folder: string, file: string, half: string, free: string): CpuLimit | undefined {
  try {
    mkdirSync(folder);
  } catch {
    return undefined;
  }
  try {
    // A controller that is not enabled has no such file; writing must not create one in another file system.
    if (!existsSync(join(folder, file))) throw new Error(`no ${file}`);
    writeFileSync(join(folder, file), half);
    writeFileSync(join(folder, 'cgroup.procs'), String(pid));
  } catch {
    rmdirSync(folder);
    return undefined;
  }
  return {
    means: join(folder, file),
    lift: () => writeFileSync(join(folder, file), free),
    remove: () => rmdirSync(folder),
  };
}

function stopAndContinue(kill: (signal: 'SIGSTOP' | 'SIGCONT') => void): CpuLimit {
  let timer: NodeJS.Timeout | undefined;
  const resume = (): void => {
    kill('SIGCONT');
    timer = setTimeout(stop, runMs);
  };
  const stop = (): void => {
    kill('SIGSTOP');
    timer = setTimeout(resume, holdMs);
  };
  const lift = (): void => {
    clearTimeout(timer);
    kill('SIGCONT');
  };
  stop();
  return { means: 'SIGSTOP and SIGCONT', lift, remove: lift };
}

/** CPU time of a process so far, over all threads; undefined where the system has no /proc. */
export function cpuMs(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  const fields = readFileSync(file, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}
