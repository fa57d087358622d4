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
import { closeSync, fdatasyncSync, ftruncateSync, openSync, readFileSync, unlinkSync, writevSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { RemusterError } from '../base/errors.ts';
import { diskError } from './disk-error.ts';

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
/** What one call of the system takes. */
const partsMax = 512;

export class GroupLog {
  readonly #path: string;
  readonly #descriptor: number;
  #bytes = 0;
  /** How far it was ever written. */
  #sizeBytes = 0;

  /** What the file has is over; see `readGroups`. */
  constructor(path: string) {
    this.#path = path;
    this.#descriptor = openSync(path, 'w');
  }

  /** Of the groups since `rewind`. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Durable when it returns. When it throws, nothing of it will be found. */
  append(number: number, parts: readonly Uint8Array[]): void {
    const header = headerOf(number, parts);
    const end = this.#write([header, ...parts, paddingOf(header)], this.#bytes);
    try {
      fdatasyncSync(this.#descriptor);
    } catch (error) {
      // Nobody knows what is on the disk now, and the system may not say so a second time.
      this.#write([zeros], this.#bytes);
      throw new RemusterError('STORE_FAILED', diskError('the log of the store cannot be synced', error).message);
    }
    this.#bytes = end;
  }

  /** Everything in it may be written over. A file that has become much larger than needed is cut. */
  rewind(sizeBytesMax: number): void {
    this.#bytes = 0;
    if (this.#sizeBytes <= sizeBytesMax) return;
    ftruncateSync(this.#descriptor, 0);
    this.#sizeBytes = 0;
  }

  close(): void {
    closeSync(this.#descriptor);
    unlinkSync(this.#path);
  }

  #write(record: Uint8Array[], start: number): number {
    let at = start;
    for (let first = 0; first < record.length; first += partsMax) {
      const some = record.slice(first, first + partsMax);
      at += this.#writeSome(some, at);
    }
    if (at > this.#sizeBytes) this.#makeRoom(at);
    return at;
  }

  #makeRoom(at: number): void {
    this.#sizeBytes = at;
    try {
      this.#sizeBytes += this.#writeSome([room], at);
    } catch {
      // Only the record has to fit, and it does.
    }
  }

  #writeSome(parts: readonly Uint8Array[], at: number): number {
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    try {
      if (writevSync(this.#descriptor, parts, at) === bytes) return bytes;
    } catch (error) {
      throw diskError('the log of the store cannot be written', error);
    }
    throw new RemusterError('STORE_FULL', 'the disk is full');
  }
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
