/**
 * A file of groups of writes, one behind the other, for a store that answers before its database has them. Each group is
 * one record with a number that never comes again, so whatever an earlier use of the file has left behind is recognised.
 * It knows nothing of what is in a group.
 *
 *   record = length of the payload (4) | CRC-32 of what follows (4) | number (8) | payload | zeros up to a multiple of 8
 *
 * Behind the last record are zeros, or records with lower numbers. A crash may tear the last record, which nobody was
 * told of then. Anything else that cannot be read is damage.
 */
import { closeSync, constants, fdatasync, ftruncateSync, openSync, readFileSync, unlinkSync, writev } from 'node:fs';
import { crc32 } from 'node:zlib';
import { RemusterError } from '../base/errors.ts';
import { diskError, systemCode } from './disk-error.ts';

export type LoggedGroup = { readonly number: number; readonly payload: Uint8Array };

const headerBytes = 16;
const crcAt = 4;
const numberAt = 8;
const alignment = 8;
const zeros = new Uint8Array(alignment);
/**
 * Written behind the last record when the file grows: a sync that makes no file larger needs no journal of the file
 * system, for which all who sync on a disk would queue up.
 */
const room = new Uint8Array(256 * 2 ** 10);
/** What one call of the system takes; more are put together first. */
const partsMax = 500;
/** Where a write can be durable when it returns, one call does both. Elsewhere that is said, but not so. */
const isSyncedByWrite = process.platform === 'linux';
const writing = constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC;
const fileMode = 0o666;

type Ended = (error: RemusterError | undefined) => void;

export class GroupLog {
  readonly #path: string;
  readonly #descriptor: number;
  #bytes = 0;
  /** How far it was ever written. */
  #sizeBytes = 0;

  /** What the file has is over; see `readGroups`. */
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
   * nothing more must be written. One at a time.
   */
  append(number: number, parts: readonly Uint8Array[], ended: Ended): void {
    const record = recordOf(number, parts);
    const start = this.#bytes;
    const end = start + bytesOf(record);
    this.#write(record, start, end, (error) => {
      if (error === undefined) this.#bytes = end;
      if (error === undefined) ended(undefined);
      else this.#takeBack(start, error, ended);
    });
  }

  /** Everything in it may be written over. A file that has become much larger than needed is cut. */
  rewind(sizeBytesMax: number): void {
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
  #takeBack(start: number, reason: RemusterError, ended: Ended): void {
    writev(this.#descriptor, [zeros], start, (error) => {
      // Where not even this fits there is nothing yet.
      const isGone = error === null || diskError('', error).code === 'STORE_FULL';
      ended(isGone ? reason : unsynced(error));
    });
  }
}

/** Nobody knows what is on the disk now, and the system may not say so a second time. */
function unsynced(error: unknown): RemusterError {
  return new RemusterError('STORE_FAILED', `the log of the store cannot be synced: ${systemCode(error)}`);
}

function recordOf(number: number, parts: readonly Uint8Array[]): readonly Uint8Array[] {
  const header = headerOf(number, parts);
  if (parts.length <= partsMax) return [header, ...parts, paddingOf(header)];
  return [header, Buffer.concat(parts), paddingOf(header)];
}

function bytesOf(parts: readonly Uint8Array[]): number {
  return parts.reduce((sum, part) => sum + part.length, 0);
}

/** Up to where the next record begins. */
function paddingOf(header: Uint8Array): Uint8Array {
  const payloadBytes = new DataView(header.buffer).getUint32(0);
  return zeros.subarray(0, recordBytes(payloadBytes) - headerBytes - payloadBytes);
}

function headerOf(number: number, parts: readonly Uint8Array[]): Uint8Array {
  const header = new Uint8Array(headerBytes);
  const view = new DataView(header.buffer);
  let length = 0;
  view.setFloat64(numberAt, number);
  let sum = crc32(header.subarray(numberAt));
  for (const part of parts) {
    sum = crc32(part, sum);
    length += part.length;
  }
  view.setUint32(0, length);
  view.setUint32(crcAt, sum);
  return header;
}

/** The groups of a file after the one with the given number, in order. STORE_CORRUPT when one among them is damaged. */
export function readGroups(path: string, after: number): LoggedGroup[] {
  const bytes = contentOf(path);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const groups: LoggedGroup[] = [];
  let at = 0;
  let last: LoggedGroup | undefined;
  for (let group = groupAt(view, at); group !== undefined; group = groupAt(view, at)) {
    if (last !== undefined && group.number !== last.number + 1) break;
    at += recordBytes(group.payload.length);
    last = group;
    if (group.number > after) groups.push(group);
  }
  // A group is only written when the former is on the disk: behind a torn one there is nothing that is newer.
  for (let place = at; place + headerBytes <= bytes.length; place += alignment) {
    const group =
      view.getFloat64(place + numberAt) > Math.max(after, last?.number ?? 0) ? groupAt(view, place) : undefined;
    if (group !== undefined && place > at) throw new RemusterError('STORE_CORRUPT', 'the log of the store is damaged');
  }
  return groups;
}

function contentOf(path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (error) {
    if (typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT')
      return new Uint8Array();
    throw diskError('the log of the store cannot be read', error);
  }
}

function recordBytes(payloadBytes: number): number {
  return Math.ceil((headerBytes + payloadBytes) / alignment) * alignment;
}

/** Undefined for whatever is not a whole record. */
function groupAt(view: DataView, at: number): LoggedGroup | undefined {
  if (at + headerBytes > view.byteLength) return undefined;
  const number = view.getFloat64(at + numberAt);
  const length = view.getUint32(at);
  if (!Number.isSafeInteger(number) || number < 1 || length > view.byteLength - at - headerBytes) return undefined;
  const start = view.byteOffset + at + numberAt;
  const checked = new Uint8Array(view.buffer, start, headerBytes - numberAt + length);
  if (crc32(checked) !== view.getUint32(at + crcAt)) return undefined;
  return { number, payload: checked.subarray(headerBytes - numberAt) };
}
