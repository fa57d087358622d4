/**
 * One write-ahead log file of the store: appends groups durably and reads them after a crash. After the last record
 * come zeros or records with lower numbers from an earlier use of the file. Recovery drops a torn last record, because
 * it was never acknowledged; any other unreadable record is STORE_CORRUPT.
 */
import { closeSync, constants, fdatasync, ftruncateSync, openSync, readFileSync, unlinkSync, writev } from 'node:fs';
import { RemusterError } from '../../base/errors.ts';
import { diskError, errnoOf } from '../files/disk-error.ts';
import {
  storeLogAlignment,
  storeLogGroupAt,
  storeLogHeaderBytes,
  type StoreLogGroup,
  storeLogSequenceAt,
  storeLogRecordBytes,
  writeStoreLogHeader,
} from './store-log-record.ts';

const zeros = new Uint8Array(storeLogAlignment);
/**
 * Preallocation, written after the record when the file grows: a sync that does not change the file size needs no
 * commit of the file system journal, for which all writers of a disk queue.
 */
const preallocation = new Uint8Array(256 * 2 ** 10);
/** O_DSYNC makes write and sync one system call. Other systems accept the flag without syncing. */
const isSyncedByWrite = process.platform === 'linux';
const writing = constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC;
const fileMode = 0o666;

type OnAppended = (error: RemusterError | undefined) => void;

export class StoreLogFile {
  readonly #path: string;
  readonly #descriptor: number;
  /** Header of the record that is being written. */
  readonly #header = Buffer.alloc(storeLogHeaderBytes);
  #bytes = 0;
  /** Size of the file: `#bytes` <= `#sizeBytes`. */
  #sizeBytes = 0;

  /** Truncates an existing file: `readStoreLogGroups` has read it before. */
  constructor(path: string) {
    this.#path = path;
    this.#descriptor = openSync(path, isSyncedByWrite ? writing | constants.O_DSYNC : writing, fileMode);
  }

  /** Size of all records since `reuse`. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Without an error the record is durable. With one it will not be found; after STORE_FAILED that is unknown, and the
   * caller must not append again. One append at a time; the payload must not change before `onAppended`.
   */
  append(number: number, payload: Uint8Array, onAppended: OnAppended): void {
    const start = this.#bytes;
    const end = start + storeLogRecordBytes(payload.length);
    writeStoreLogHeader(this.#header, number, payload);
    const padding = zeros.subarray(0, end - start - storeLogHeaderBytes - payload.length);
    this.#write([this.#header, payload, padding], start, end, (error) => {
      if (error !== undefined) return this.#eraseFailedAppend(start, error, onAppended);
      this.#bytes = end;
      onAppended(undefined);
    });
  }

  /** Starts at the beginning of the file again. A file larger than `sizeBytesMax` is truncated. */
  reuse(sizeBytesMax: number): void {
    this.#bytes = 0;
    if (this.#sizeBytes <= sizeBytesMax) return;
    ftruncateSync(this.#descriptor, 0);
    this.#sizeBytes = 0;
  }

  /** Leaves the file for a later recovery. */
  close(): void {
    closeSync(this.#descriptor);
  }

  remove(): void {
    closeSync(this.#descriptor);
    unlinkSync(this.#path);
  }

  #write(record: readonly Uint8Array[], start: number, end: number, onAppended: OnAppended): void {
    const isGrowing = end > this.#sizeBytes;
    writev(this.#descriptor, isGrowing ? [...record, preallocation] : record, start, (error, written) => {
      if (error !== null) return onAppended(diskError('the log of the store cannot be written', error));
      // The preallocation may be cut short by a full disk, the record may not.
      if (start + written < end) return onAppended(new RemusterError('STORE_FULL', 'the disk is full'));
      if (isGrowing) this.#sizeBytes = start + written;
      if (isSyncedByWrite) onAppended(undefined);
      else fdatasync(this.#descriptor, (failed) => onAppended(failed === null ? undefined : syncError(failed)));
    });
  }

  /** Overwrites the header of a record that may be on the disk in part or whole. */
  #eraseFailedAppend(start: number, reason: RemusterError, onAppended: OnAppended): void {
    writev(this.#descriptor, [zeros], start, (error) => {
      // If the disk has no room for this header, the failed append has not written one either.
      const isErased = error === null || diskError('', error).code === 'STORE_FULL';
      onAppended(isErased ? reason : syncError(error));
    });
  }
}

/** The content of the disk is unknown, and the system may report a failed sync only once. */
function syncError(error: unknown): RemusterError {
  return new RemusterError('STORE_FAILED', `the log of the store cannot be synced: ${errnoOf(error)}`);
}

/** The groups of a file with numbers above `after`, in order. STORE_CORRUPT if one of them is damaged. */
export function readStoreLogGroups(path: string, after: number): StoreLogGroup[] {
  const bytes = contentOf(path);
  const groups: StoreLogGroup[] = [];
  let at = 0;
  let last: StoreLogGroup | undefined;
  for (let group = storeLogGroupAt(bytes, at); group !== undefined; group = storeLogGroupAt(bytes, at)) {
    if (last !== undefined && group.number !== last.number + 1) break;
    at += storeLogRecordBytes(group.payload.length);
    last = group;
    if (group.number > after) groups.push(group);
  }
  // A group is written only after the previous one is durable: a newer record after an unreadable one means damage.
  for (let offset = at; offset + storeLogHeaderBytes <= bytes.length; offset += storeLogAlignment) {
    const isNewer = storeLogSequenceAt(bytes, offset) > Math.max(after, last?.number ?? 0);
    if (isNewer && offset > at && storeLogGroupAt(bytes, offset) !== undefined)
      throw new RemusterError('STORE_CORRUPT', 'the log of the store is damaged');
  }
  return groups;
}

function contentOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return Buffer.alloc(0);
    throw diskError('the log of the store cannot be read', error);
  }
}
