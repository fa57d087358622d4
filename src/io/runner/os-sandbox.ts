/**
 * The operating system's limits for a runner: no new privileges, own user id, limits on files, threads and cores by
 * prlimit and setpriv.
 */
import { spawnSync } from 'node:child_process';
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
const tryMsMax = 10_000;

let started = 0;

/** Runners do not share an id with each other or with anybody else, as long as fewer than some thousand live. */
export function nextRunnerUserId(): number {
  started += 1;
  return firstUserId + (started % userIds);
}

/** Whether this system lets us limit a process. */
export function isSandboxAvailable(): boolean {
  return limits().length > 0;
}

export function sandboxedCommand(program: string, words: readonly string[]): [string, string[]] {
  const [first, ...rest] = [...limits(), program, ...words];
  return [first as string, rest];
}

let found: readonly string[] | undefined;

/** The best that works here: containers may forbid one or the other. Found out once, by trying. */
function limits(): readonly string[] {
  found ??= candidates().find(works) ?? [];
  return found;
}

function candidates(): readonly (readonly string[])[] {
  if (process.platform !== 'linux' || !existsSync(prlimit) || !existsSync(setpriv)) return [];
  const isRoot = process.getuid?.() === 0;
  const files = Math.min(openFilesMax, openFilesAllowed());
  const bounds = [prlimit, '--core=0:0', '--fsize=0:0', `--nofile=${files}:${files}`];
  const rights = [setpriv, '--no-new-privs'];
  if (!isRoot) return [[...bounds, ...rights]];
  // The limit on threads counts everything of that user: only with an id of its own is that the runner alone.
  bounds.push(`--nproc=${threadsMax}:${threadsMax}`);
  return [
    [...bounds, ...rights, '--bounding-set=-all,+setuid,+setgid'],
    [...bounds, ...rights],
  ];
}

function works(words: readonly string[]): boolean {
  const rest = [...words.slice(1), setpriv, '--version'];
  return spawnSync(prlimit, rest, { env: {}, stdio: 'ignore', timeout: tryMsMax }).status === 0;
}

/** When the machine is busy, nodes come first: they have to say that they are alive. */
export function lowerCpuPriority(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, niceness);
  } catch {
    // Already gone.
  }
}

function openFilesAllowed(): number {
  const line = /^Max open files\s+(?:\d+|unlimited)\s+(\d+|unlimited)/m.exec(
    readFileSync('/proc/self/limits', 'latin1'),
  );
  return line === null || line[1] === 'unlimited' ? openFilesMax : Number(line[1]);
}
