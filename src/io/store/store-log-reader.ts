/**
 * Reads records of a log file while another thread appends. Never reads past the reported end; never returns bytes with
 * a wrong checksum.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import { RemusterError } from '../../base/errors.ts';
import { errnoOf } from '../files/disk-error.ts';
import {
  storeLogGroupAt,
  storeLogHeaderBytes,
  type StoreLogGroup,
  storeLogPayloadBytesAt,
  storeLogRecordBytes,
} from './store-log-record.ts';

/** Size of one read: many small records, or one larger record whole. */
const blockBytes = 128 * 2 ** 10;
/** Larger memory is released by `forget`. */
const reusedBytesMax = 2 ** 20;

export class StoreLogReader {
  readonly #path: string;
  #descriptor: number | undefined;
  /** A multiple of `blockBytes` that holds the largest record read so far: usually one block. */
  #memory = Buffer.alloc(0);
  /** Range of the file that is in memory. */
  #blockAt = 0;
  #loadedBytes = 0;
  /** The last record that was returned; its checksum was correct. */
  #last: { readonly at: number; readonly group: StoreLogGroup } | undefined;

  /** Opens the file at the first read: the other thread may create it later than this reader. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The record at offset `at` of a log that is acknowledged up to `end`. Valid until the next call. STORE_CORRUPT if
   * there is no such record, STORE_FAILED if the file cannot be read.
   */
  group(at: number, end: number): StoreLogGroup {
    if (this.#last?.at === at) return this.#last.group;
    this.#last = undefined;
    this.#load(at, storeLogHeaderBytes, end);
    this.#load(at, storeLogRecordBytes(storeLogPayloadBytesAt(this.#memory, at - this.#blockAt)), end);
    const group = storeLogGroupAt(this.#memory, at - this.#blockAt);
    if (group === undefined) throw this.#damaged();
    this.#last = { at, group };
    return group;
  }

  /** Called before the file is reused: drops what is in memory. */
  forget(): void {
    this.#last = undefined;
    this.#loadedBytes = 0;
    if (this.#memory.length > reusedBytesMax) this.#memory = Buffer.alloc(0);
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  /** Afterwards `bytes` bytes from offset `at` on are in memory. */
  #load(at: number, bytes: number, end: number): void {
    if (at + bytes > end) throw this.#damaged();
    if (at >= this.#blockAt && at + bytes <= this.#blockAt + this.#loadedBytes) return;
    const loadBytes = Math.max(bytes, Math.min(blockBytes, end - at));
    if (this.#memory.length < loadBytes) {
      this.#memory = Buffer.allocUnsafeSlow(Math.ceil(loadBytes / blockBytes) * blockBytes);
    }
    this.#blockAt = at;
    this.#loadedBytes = 0;
    while (this.#loadedBytes < loadBytes) {
      const readBytes = this.#readSome(this.#loadedBytes, loadBytes - this.#loadedBytes, at + this.#loadedBytes);
      // The file is shorter than its acknowledged end.
      if (readBytes === 0) throw this.#damaged();
      this.#loadedBytes += readBytes;
    }
  }

  #readSome(memoryAt: number, bytes: number, at: number): number {
    try {
      this.#descriptor ??= openSync(this.#path, 'r');
      return readSync(this.#descriptor, this.#memory, memoryAt, bytes, at);
    } catch (error) {
      throw new RemusterError('STORE_FAILED', `the log of the store cannot be read: ${errnoOf(error)}`);
    }
  }

  /** Drops what is in memory, so that a retry reads the file again. */
  #damaged(): RemusterError {
    this.#loadedBytes = 0;
    return new RemusterError('STORE_CORRUPT', 'the log of the store is damaged');
  }
}
