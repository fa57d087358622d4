/**
 * Keeps files open for appending, least recently used closed first. A failed append is truncated away, so a full disk
 * leaves the file as it was.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { errnoOf } from './disk-error.ts';

type OpenFile = {
  readonly handle: FileHandle;
  sizeBytes: number;
  /** The directory entry is not durable yet. */
  isNew: boolean;
};

export class AppendFileCache {
  readonly #open: BoundedLru<string, OpenFile>;

  /** `onEvict` must call `release` when no operation on that path is in progress. */
  constructor(max: number, onEvict: (path: string, release: () => Promise<void>) => void) {
    this.#open = new BoundedLru(max, (path, file) => onEvict(path, () => release(path, file)));
  }

  async append(path: string, bytes: Uint8Array): Promise<void> {
    const file = this.#open.get(path) ?? (await this.#openFile(path));
    try {
      await writeFully(file.handle, bytes);
      file.sizeBytes += bytes.length;
    } catch (error) {
      await file.handle.truncate(file.sizeBytes);
      throw error;
    }
  }

  /** Makes data and, for a new file, the directory entry durable. Opens the file when it is not open. */
  async sync(path: string): Promise<void> {
    const file = this.#open.get(path);
    if (file === undefined) {
      await openAndSync(path, 'r+');
    } else {
      await file.handle.datasync();
      if (!file.isNew) return;
      file.isNew = false;
    }
    await syncDirectory(dirname(path));
  }

  /** Closes the file if it is open. Called before its path names another file or none. */
  async close(path: string): Promise<void> {
    const file = this.#open.delete(path);
    if (file !== undefined) await release(path, file);
  }

  async closeAll(): Promise<void> {
    for (const [path] of [...this.#open.entries()]) await this.close(path);
  }

  async #openFile(path: string): Promise<OpenFile> {
    let isNew = false;
    const handle = await open(path, constants.O_WRONLY | constants.O_APPEND).catch(async (error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error;
      isNew = true;
      await makeDirectory(dirname(path));
      return open(path, 'a', 0o600);
    });
    const file = { handle, sizeBytes: (await handle.stat()).size, isNew };
    this.#open.set(path, file);
    return file;
  }
}

async function release(path: string, file: OpenFile): Promise<void> {
  await file.handle.close();
  if (file.isNew) await syncDirectory(dirname(path));
}

/** Repeats `write`, which may accept only a part of the bytes. */
export async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += (await handle.write(bytes, written, bytes.length - written)).bytesWritten;
  }
}

export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open a directory; its file system journal has to be enough.
  if (process.platform === 'win32') return;
  await openAndSync(path, 'r');
}

async function openAndSync(path: string, flags: string): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates the directory and its parents durably. */
export async function makeDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let created = path; created.length >= first.length; created = dirname(created)) {
    await syncDirectory(dirname(created));
  }
}
