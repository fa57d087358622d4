/**
 * The limits of the operating system for a runner, by prlimit and setpriv: no new privileges, an own user id, limits on
 * open files, file size, core dumps and threads.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setPriority } from 'node:os';

const prlimit = '/usr/bin/prlimit';
const setpriv = '/usr/bin/setpriv';
const openFilesMax = 32_768;
/** Node itself uses about twelve threads. */
const threadsMax = 96;
/** The range that systemd reserves for dynamic users. */
const firstUserId = 61_184;
const userIds = 4_096;
const niceness = 2;
const probeMsMax = 10_000;

let started = 0;

/** The ids of up to 4096 concurrent runners differ from each other and from those of other processes. */
export function nextRunnerUserId(): number {
  started += 1;
  return firstUserId + (started % userIds);
}

/** Whether this system allows the node to limit a process. */
export function isSandboxAvailable(): boolean {
  return limits().length > 0;
}

export function sandboxedCommand(program: string, args: readonly string[]): [string, string[]] {
  const [first, ...rest] = [...limits(), program, ...args];
  return [first as string, rest];
}

let supported: readonly string[] | undefined;

/** The strictest command prefix that works here, found once by trying: a container may forbid some limits. */
function limits(): readonly string[] {
  supported ??= candidates().find(isSupported) ?? [];
  return supported;
}

function candidates(): readonly (readonly string[])[] {
  if (process.platform !== 'linux' || !existsSync(prlimit) || !existsSync(setpriv)) return [];
  const isRoot = process.getuid?.() === 0;
  const files = Math.min(openFilesMax, openFilesAllowed());
  const bounds = [prlimit, '--core=0:0', '--fsize=0:0', `--nofile=${files}:${files}`];
  const rights = [setpriv, '--no-new-privs'];
  if (!isRoot) return [[...bounds, ...rights]];
  // nproc counts all threads of a user, so it limits the runner only if that has a user id of its own.
  bounds.push(`--nproc=${threadsMax}:${threadsMax}`);
  return [
    [...bounds, ...rights, '--bounding-set=-all,+setuid,+setgid'],
    [...bounds, ...rights],
  ];
}

function isSupported(command: readonly string[]): boolean {
  const args = [...command.slice(1), setpriv, '--version'];
  return spawnSync(prlimit, args, { env: {}, stdio: 'ignore', timeout: probeMsMax }).status === 0;
}

/** On a busy machine nodes come first, because they have to send heartbeats. */
export function lowerCpuPriority(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, niceness);
  } catch {
    // The process has ended.
  }
}

function openFilesAllowed(): number {
  const line = /^Max open files\s+(?:\d+|unlimited)\s+(\d+|unlimited)/m.exec(
    readFileSync('/proc/self/limits', 'latin1'),
  );
  return line === null || line[1] === 'unlimited' ? openFilesMax : Number(line[1]);
}
