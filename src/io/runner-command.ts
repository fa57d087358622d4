/**
 * How the system itself locks a runner in, where it can: no new privileges, no capabilities but those with which the
 * process gives up being root, no core dumps, no file of any size, a bound on open files and on threads, a user id of its
 * own, and less right to the processor than the node has. `prlimit` and `setpriv` are part of every Linux.
 */
import { existsSync, readFileSync } from 'node:fs';
import { setPriority } from 'node:os';

const prlimit = '/usr/bin/prlimit';
const setpriv = '/usr/bin/setpriv';
const openFilesMax = 32_768;
/** Node itself has about twelve. */
const threadsMax = 96;
/** A range that systems keep free for processes that come and go. */
const firstUserId = 61_184;
const userIds = 4_096;
const niceness = 2;

export const canLimit = process.platform === 'linux' && existsSync(prlimit) && existsSync(setpriv);

let started = 0;

/** Runners do not share an id with each other or with anybody else, as long as fewer than some thousand live. */
export function nextUserId(): number {
  started += 1;
  return firstUserId + (started % userIds);
}

export function limitedCommand(program: string, words: readonly string[]): [string, string[]] {
  if (!canLimit) return [program, [...words]];
  const isRoot = process.getuid?.() === 0;
  const files = Math.min(openFilesMax, openFilesAllowed());
  const limits = ['--core=0:0', '--fsize=0:0', `--nofile=${files}:${files}`];
  // The limit counts everything of that user: only with an id of its own is that the runner alone.
  if (isRoot) limits.push(`--nproc=${threadsMax}:${threadsMax}`);
  const rights = ['--no-new-privs', ...(isRoot ? ['--bounding-set=-all,+setuid,+setgid'] : [])];
  return [prlimit, [...limits, setpriv, ...rights, program, ...words]];
}

/** When the machine is busy, nodes come first: they have to say that they are alive. */
export function yieldProcessor(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, niceness);
  } catch {
    // Already gone.
  }
}

let filesAllowed: number | undefined;

function openFilesAllowed(): number {
  if (filesAllowed === undefined) {
    const line = /^Max open files\s+(?:\d+|unlimited)\s+(\d+|unlimited)/m.exec(
      readFileSync('/proc/self/limits', 'latin1'),
    );
    filesAllowed = line === null || line[1] === 'unlimited' ? openFilesMax : Number(line[1]);
  }
  return filesAllowed;
}
