/**
 * The Files port below one root directory. Operations on one path run in order; a replaced file is whole or old. Never
 * creates anything outside the root.
 *
 * It never creates anything outside its root, and does not guard against other processes: data-dir.ts does.
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
  /** Ends when everything asked before has ended and every file is closed. */
  close(done: Done<void>): void;
};

/** Where new files are written before they take the place of old ones: on the same file system, and easy to clean. */
const workshop = '.replace';
const readBytesMax = 2 ** 30;
const handlesMax = 64;

export function openFiles(root: string): OpenFiles {
  rmSync(join(root, workshop), { recursive: true, force: true });
  mkdirSync(join(root, workshop), { recursive: true, mode: 0o700 });
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
  readonly #lanes = new KeyedTaskQueue({ runningMax: 32, waitingMax: 10_000 });
  #written = 0;

  constructor(root: string) {
    this.#root = root;
    this.handles = new AppendFileCache(handlesMax, (path, release) => {
      // The data of an evicted file is still the business of `sync`, which opens it again and reports its errors.
      this.#lanes.run(path, release).catch(() => undefined);
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
    const draft = join(this.#root, workshop, String(this.#written++));
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
    if (!Number.isSafeInteger(sizeBytes) || sizeBytes < 0) throw new RemusterError('BAD_ARGUMENT', 'no file size');
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
      await this.#lanes.idle();
      await this.handles.closeAll();
    };
    void tell('close', work(), done);
  }

  #run<T>(what: string, lane: string, done: Done<T>, work: () => Promise<T>): void {
    void tell(
      what,
      // In the lane also when the path is bad, so that endings keep the order of the calls.
      this.#lanes.run(lane, async () => work()),
      done,
    );
  }
}

async function tell<T>(what: string, ending: Promise<T>, done: Done<T>): Promise<void> {
  try {
    callInMicrotask(done, success(await ending));
  } catch (error) {
    callInMicrotask(done, { ok: false, error: diskError(what, error) });
  }
}

function checkPath(path: string): void {
  const parts = path.split('/');
  const isPlain = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  if (!isPlain || /[\0\\]/.test(path) || !path.isWellFormed() || parts[0] === workshop) {
    throw new RemusterError('BAD_ARGUMENT', 'a path is relative, plain and without `..`');
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
