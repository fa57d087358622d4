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

/** What is read at once: many small records, or one that is larger. */
const pieceBytes = 128 * 2 ** 10;
/** Larger memory is let go when the file is over. */
const keptBytesMax = 2 ** 20;

export class StoreLogReader {
  readonly #path: string;
  #descriptor: number | undefined;
  /** So many pieces as the largest record needs: in general one, at most the largest batch that a store takes. */
  #memory = Buffer.alloc(0);
  /** What of the file is in memory: so many bytes from there. */
  #pieceAt = 0;
  #loadedBytes = 0;
  /** The last record that was asked for; its checksum was right. */
  #last: { readonly at: number; readonly group: StoreLogGroup } | undefined;

  /** The file is opened when it is needed: before that the other thread may not have begun with it. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * The record that begins at `at`, of a log that was acknowledged up to `end`. What it returns is overwritten by the next
   * call. STORE_CORRUPT if there is none, STORE_FAILED if nobody knows.
   */
  group(at: number, end: number): StoreLogGroup {
    if (this.#last?.at === at) return this.#last.group;
    this.#last = undefined;
    this.#load(at, storeLogHeaderBytes, end);
    this.#load(at, storeLogRecordBytes(storeLogPayloadBytesAt(this.#memory, at - this.#pieceAt)), end);
    const group = storeLogGroupAt(this.#memory, at - this.#pieceAt);
    if (group === undefined) throw this.#damaged();
    this.#last = { at, group };
    return group;
  }

  /** The file will be written from its beginning, or is not needed for now. */
  forget(): void {
    this.#last = undefined;
    this.#loadedBytes = 0;
    if (this.#memory.length > keptBytesMax) this.#memory = Buffer.alloc(0);
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  /** So many bytes from there are in memory. */
  #load(at: number, bytes: number, end: number): void {
    if (at + bytes > end) throw this.#damaged();
    if (at >= this.#pieceAt && at + bytes <= this.#pieceAt + this.#loadedBytes) return;
    const wanted = Math.max(bytes, Math.min(pieceBytes, end - at));
    if (this.#memory.length < wanted) {
      this.#memory = Buffer.allocUnsafeSlow(Math.ceil(wanted / pieceBytes) * pieceBytes);
    }
    this.#pieceAt = at;
    this.#loadedBytes = 0;
    while (this.#loadedBytes < wanted) {
      const more = this.#readSome(this.#loadedBytes, wanted - this.#loadedBytes, at + this.#loadedBytes);
      // It was longer when it was acknowledged.
      if (more === 0) throw this.#damaged();
      this.#loadedBytes += more;
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

  /** Who asks again gets what the file has then. */
  #damaged(): RemusterError {
    this.#loadedBytes = 0;
    return new RemusterError('STORE_CORRUPT', 'the log of the store is damaged');
  }
}
