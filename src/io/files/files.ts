/**
 * The Files port below one root directory. Operations on one path run in order; after a crash a replaced file has its
 * old or its new content, whole. Never creates anything outside the root, and does not guard against other processes:
 * data-dir.ts does.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { open, readFile, readdir, rename, stat, truncate, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { RemusterError, success } from '../../base/errors.ts';
import type { Done } from '../../base/errors.ts';
import type { Files } from '../../base/ports.ts';
import { AppendFileCache, makeDirectory, syncDirectory, writeFully } from './append-file-cache.ts';
import { callInMicrotask } from '../system/callback.ts';
import { diskError, errnoOf } from './disk-error.ts';
import { KeyedTaskQueue } from './keyed-task-queue.ts';

export type OpenFiles = Files & {
  /** Completes after all earlier operations, when every file is closed. */
  close(done: Done<void>): void;
};

/** Where `replace` writes drafts before it renames them: on the same file system, and emptied at start. */
const draftFolder = '.replace';
const readBytesMax = 2 ** 30;
const handlesMax = 64;

export function openFiles(root: string): OpenFiles {
  rmSync(join(root, draftFolder), { recursive: true, force: true });
  mkdirSync(join(root, draftFolder), { recursive: true, mode: 0o700 });
  const files = new RealFiles(root);
  return {
    read: (path, done) => files.perform('read', path, done, (full) => readWhole(full)),
    replace: (path, bytes, done) => {
      const copy = bytes.slice();
      files.perform('replace', path, done, (full) => files.replace(full, copy));
    },
    append: (path, bytes, done) => {
      const copy = bytes.slice();
      files.perform('append', path, done, (full) => files.handles.append(full, copy));
    },
    sync: (path, done) => files.perform('sync', path, done, (full) => files.handles.sync(full)),
    truncate: (path, sizeBytes, done) =>
      files.perform('truncate', path, done, (full) => files.truncate(full, sizeBytes)),
    list: (directory, done) => files.list(directory, done),
    remove: (path, done) => files.perform('remove', path, done, (full) => files.remove(full)),
    close: (done) => files.close(done),
  };
}

class RealFiles {
  readonly handles: AppendFileCache;
  readonly #root: string;
  readonly #tasks = new KeyedTaskQueue({ runningMax: 32, waitingMax: 10_000 });
  #draftCount = 0;

  constructor(root: string) {
    this.#root = root;
    this.handles = new AppendFileCache(handlesMax, (path, release) => {
      // A later `sync` opens an evicted file again and reports its errors.
      this.#tasks.run(path, release).catch(() => undefined);
    });
  }

  perform<T>(verb: string, path: string, done: Done<T>, work: (full: string) => Promise<T>): void {
    const full = join(this.#root, path);
    this.#run(`${verb} ${JSON.stringify(path)}`, full, done, () => {
      checkPath(path);
      return work(full);
    });
  }

  list(directory: string, done: Done<readonly string[]>): void {
    const full = join(this.#root, directory);
    this.#run(`list ${JSON.stringify(directory)}`, full, done, () => {
      if (directory !== '') checkPath(directory);
      return fileNames(full);
    });
  }

  async replace(path: string, bytes: Uint8Array): Promise<void> {
    const draft = join(this.#root, draftFolder, String(this.#draftCount++));
    try {
      const handle = await open(draft, 'wx', 0o600);
      try {
        await writeFully(handle, bytes);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await this.handles.close(path);
      await makeDirectory(dirname(path));
      await rename(draft, path);
    } catch (error) {
      await unlink(draft).catch(() => undefined);
      throw error;
    }
    await syncDirectory(dirname(path));
  }

  async truncate(path: string, sizeBytes: number): Promise<void> {
    if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0)
      throw new RemusterError('BAD_ARGUMENT', `${sizeBytes} is not a file size`);
    await this.handles.close(path);
    await truncate(path, sizeBytes);
  }

  async remove(path: string): Promise<void> {
    await this.handles.close(path);
    try {
      await unlink(path);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return;
      throw error;
    }
    await syncDirectory(dirname(path));
  }

  close(done: Done<void>): void {
    const work = async (): Promise<void> => {
      await this.#tasks.idle();
      await this.handles.closeAll();
    };
    void report('close', work(), done);
  }

  #run<T>(what: string, key: string, done: Done<T>, work: () => Promise<T>): void {
    // A bad path is queued as well, so that callbacks keep the order of the calls.
    void report(
      what,
      this.#tasks.run(key, async () => work()),
      done,
    );
  }
}

async function report<T>(what: string, result: Promise<T>, done: Done<T>): Promise<void> {
  try {
    callInMicrotask(done, success(await result));
  } catch (error) {
    callInMicrotask(done, { ok: false, error: diskError(what, error) });
  }
}

function checkPath(path: string): void {
  const parts = path.split('/');
  const isPlain = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  if (!isPlain || /[\0\\]/.test(path) || !path.isWellFormed() || parts[0] === draftFolder) {
    throw new RemusterError('BAD_ARGUMENT', 'a path is relative, without empty parts, `.` and `..`');
  }
}

async function readWhole(path: string): Promise<Uint8Array | undefined> {
  try {
    if ((await stat(path)).size > readBytesMax) throw new RemusterError('TOO_LARGE', 'the file is larger than 1 GiB');
    const bytes = await readFile(path);
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function fileNames(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
    return names.toSorted((a, b) => (a < b ? -1 : 1));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}
