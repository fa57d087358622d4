/**
 * One write-ahead log file of the store: appends groups durably, reads them after a crash. A torn last record is
 * dropped; any other damage is STORE_CORRUPT.
 *
 * Behind the last record are zeros, or records with lower numbers. A crash may tear the last record, which nobody was
 * told of then. Anything else that cannot be read is damage.
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
 * Written behind the last record when the file grows: a sync that makes no file larger needs no journal of the file
 * system, for which all who sync on a disk would queue up.
 */
const room = new Uint8Array(256 * 2 ** 10);
/** Where a write can be durable when it returns, one call does both. Elsewhere that is said, but not so. */
const isSyncedByWrite = process.platform === 'linux';
const writing = constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC;
const fileMode = 0o666;

type Ended = (error: RemusterError | undefined) => void;

export class StoreLogFile {
  readonly #path: string;
  readonly #descriptor: number;
  /** Of the record that is being written. */
  readonly #header = Buffer.alloc(storeLogHeaderBytes);
  #bytes = 0;
  /** How far it was ever written. */
  #sizeBytes = 0;

  /** What the file has is over; see `readStoreLogGroups`. */
  constructor(path: string) {
    this.#path = path;
    this.#descriptor = openSync(path, isSyncedByWrite ? writing | constants.O_DSYNC : writing, fileMode);
  }

  /** Of the groups since `rewind`. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Durable when it has ended well. Otherwise nothing of it will be found, or, with STORE_FAILED, nobody knows that: then
   * nothing more must be written. One at a time; until it has ended the payload must not change.
   */
  append(number: number, payload: Uint8Array, ended: Ended): void {
    const start = this.#bytes;
    const end = start + storeLogRecordBytes(payload.length);
    writeStoreLogHeader(this.#header, number, payload);
    const padding = zeros.subarray(0, end - start - storeLogHeaderBytes - payload.length);
    this.#write([this.#header, payload, padding], start, end, (error) => {
      if (error !== undefined) return this.#eraseFailedAppend(start, error, ended);
      this.#bytes = end;
      ended(undefined);
    });
  }

  /** Everything in it may be written over. A file that has become much larger than needed is cut. */
  reuse(sizeBytesMax: number): void {
    this.#bytes = 0;
    if (this.#sizeBytes <= sizeBytesMax) return;
    ftruncateSync(this.#descriptor, 0);
    this.#sizeBytes = 0;
  }

  /** It can be read again. */
  close(): void {
    closeSync(this.#descriptor);
  }

  remove(): void {
    closeSync(this.#descriptor);
    unlinkSync(this.#path);
  }

  #write(record: readonly Uint8Array[], start: number, end: number, ended: Ended): void {
    const isGrowing = end > this.#sizeBytes;
    writev(this.#descriptor, isGrowing ? [...record, room] : record, start, (error, written) => {
      if (error !== null) return ended(diskError('the log of the store cannot be written', error));
      // Of the room as much as there is; the record has to fit.
      if (start + written < end) return ended(new RemusterError('STORE_FULL', 'the disk is full'));
      if (isGrowing) this.#sizeBytes = start + written;
      if (isSyncedByWrite) ended(undefined);
      else fdatasync(this.#descriptor, (failed) => ended(failed === null ? undefined : unsynced(failed)));
    });
  }

  /** A part of it may be there, or all of it. */
  #eraseFailedAppend(start: number, reason: RemusterError, ended: Ended): void {
    writev(this.#descriptor, [zeros], start, (error) => {
      // Where not even this fits there is nothing yet.
      const isGone = error === null || diskError('', error).code === 'STORE_FULL';
      ended(isGone ? reason : unsynced(error));
    });
  }
}

/** Nobody knows what is on the disk now, and the system may not say so a second time. */
function unsynced(error: unknown): RemusterError {
  return new RemusterError('STORE_FAILED', `the log of the store cannot be synced: ${errnoOf(error)}`);
}

/** The groups of a file after the one with the given number, in order. STORE_CORRUPT when one among them is damaged. */
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
  // A group is only written when the former is on the disk: behind a torn one there is nothing that is newer.
  for (let place = at; place + storeLogHeaderBytes <= bytes.length; place += storeLogAlignment) {
    const isNewer = storeLogSequenceAt(bytes, place) > Math.max(after, last?.number ?? 0);
    if (isNewer && place > at && storeLogGroupAt(bytes, place) !== undefined)
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
