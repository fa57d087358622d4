/**
 * The data directory: mode 0700, one process at a time by an SQLite lock, removed at exit when ephemeral. Refuses a
 * directory with foreign content, so that a mistyped path is neither locked nor removed.
 *
 * The lock is an exclusive SQLite lock on a file of its own. It belongs to the process: the kernel releases it however
 * the process ends, so a node killed with -9 never blocks its next start, and no process id is guessed. Nothing else in
 * this process may open that file, because closing it would release the lock.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { RemusterError } from '../../base/errors.ts';
import { dataFormat } from '../../base/format-versions.ts';
import { diskError } from './disk-error.ts';

export type DataDir = {
  readonly path: string;
  /** Releases the lock and removes an ephemeral directory. Idempotent. */
  release(): void;
};

const lockName = 'lock';
const formatName = 'format';
const holderName = 'holder';
const directoryMode = 0o700;
const sqliteBusy = 5;

/** References that keep the locks from garbage collection, also when a caller drops its DataDir. */
const locks = new Set<DatabaseSync>();

/** Without a path it creates a directory in the system's temporary folder. */
export function openDataDir(options: { readonly path?: string; readonly ephemeral?: boolean }): DataDir {
  try {
    const path = options.path === undefined ? mkdtempSync(join(tmpdir(), 'remuster-')) : prepare(resolve(options.path));
    const lock = acquire(path);
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      // Removed before the lock is released, so that no other process can acquire it in between.
      if (options.ephemeral === true) rmSync(path, { recursive: true, force: true });
      else rmSync(join(path, holderName), { force: true });
      locks.delete(lock);
      lock.close();
    };
    return { path, release };
  } catch (error) {
    throw diskError('the data directory cannot be used', error);
  }
}

function prepare(path: string): string {
  mkdirSync(path, { recursive: true, mode: directoryMode });
  const names = readdirSync(path);
  // Written first, so that an interrupted start leaves a usable directory.
  if (isUnused(path, names)) writeFileSync(join(path, formatName), `${dataFormat}\n`, { mode: 0o600 });
  else checkFormat(path, names);
  if ((statSync(path).mode & 0o077) !== 0 && process.platform !== 'win32') chmodSync(path, directoryMode);
  return path;
}

/** Empty, or interrupted while the format file was written. */
function isUnused(path: string, names: readonly string[]): boolean {
  if (names.length === 0) return true;
  return names.length === 1 && names[0] === formatName && statSync(join(path, formatName)).size === 0;
}

/** Directories of format 1 have no format file. */
function checkFormat(path: string, names: readonly string[]): void {
  if (!names.includes(formatName) && !names.includes(lockName)) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `the directory ${path} has other content and no data of a node; choose an empty directory`,
    );
  }
  const found = names.includes(formatName) ? readFileSync(join(path, formatName), 'utf8').trim() : '1';
  if (found === String(dataFormat)) return;
  const read = `this version reads format ${dataFormat} only`;
  const text = `the data directory ${path} has format ${found.slice(0, 40)}, and ${read}`;
  const advice = 'start it with the version that wrote it, or choose an empty directory';
  throw new RemusterError('INCOMPATIBLE_VERSION', `${text}; ${advice}`);
}

function acquire(path: string): DatabaseSync {
  const lock = new DatabaseSync(join(path, lockName));
  try {
    lock.exec('PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new RemusterError('STORE_FAILED', `the data directory is in use by ${holderOf(path)}`);
  }
  writeFileSync(join(path, holderName), `${process.pid}\n`, { mode: 0o600 });
  locks.add(lock);
  return lock;
}

function isBusy(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'errcode' in error && error.errcode === sqliteBusy;
}

/** Only for the error message; the lock does not depend on it. */
function holderOf(path: string): string {
  try {
    const pid = Number(readFileSync(join(path, holderName), 'utf8'));
    return Number.isSafeInteger(pid) && pid > 0 ? `process ${pid}` : 'another process';
  } catch {
    return 'another process';
  }
}
