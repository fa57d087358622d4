/**
 * Messages between store and store thread, and the packed batch format. A batch travels as one transferred buffer; keys
 * are UTF-8, so that SQLite compares bytes.
 *
 *   packed batch:  { row | prefixed rows }*
 *   row:           u32 key length, u32 value length or 2^32-1 for a tombstone, key, value
 *   prefixed rows: u32 2^32-1, u32 bytes of the rows, u32 prefix length, prefix, { row }*
 */
import { tombstoneLength, readUint32, rowHeaderBytes, writeAscii, writeUint32 } from '../../base/row-codec.ts';
import type { ErrorCode } from '../../base/errors.ts';
import type { StoreEntry, StoreRows, StoreWrite } from '../../base/ports.ts';

export type StoreThreadData = {
  readonly file: string;
  readonly sizeBytesMax: number | undefined;
  readonly isLogged: boolean;
};

export type StoreWriteCall = { readonly kind: 'write'; readonly packed: Uint8Array };
export type StoreRead = {
  readonly kind: 'read';
  readonly from: Uint8Array;
  readonly to: Uint8Array;
  readonly limit: number;
};
export type StoreCall = StoreWriteCall | StoreRead;

/**
 * Calls of a checkpointed database. `logged`: the current log file is acknowledged up to the offset `bytes`, the end of
 * group `number`. `switchFile`: the backend continues at the beginning of the other log file.
 */
export type StoreLogCall =
  | StoreRead
  | { readonly kind: 'logged'; readonly number: number; readonly bytes: number }
  | { readonly kind: 'switchFile' };

export type StoreError = { readonly code: ErrorCode; readonly message: string };

/** A read has `entries`, a failed call has `error`, a durable write has neither. */
export type StoreReply = { readonly entries?: readonly StoreEntry[]; readonly error?: StoreError };

export type ToStoreThread<Call> =
  | { readonly kind: 'group'; readonly calls: readonly Call[] }
  | { readonly kind: 'close' };

/** `number` is that of the last log group in the database. */
export type FromStoreThread =
  | { readonly kind: 'opened'; readonly number: number }
  | { readonly kind: 'failed'; readonly error: StoreError }
  | { readonly kind: 'replies'; readonly replies: readonly StoreReply[] }
  | { readonly kind: 'closed' };

/** The two files of the store log. */
export function logPaths(file: string): readonly [string, string] {
  return [`${file}-log0`, `${file}-log1`];
}

/** Marks prefixed rows, in the place of a key length. */
const prefixMark = 0xffff_ffff;
const prefixHeaderBytes = 12;
const encoder = new TextEncoder();

export type StoreBatch = readonly (StoreWrite | StoreRows)[];

/** An upper bound: UTF-8 takes at most three bytes per UTF-16 unit. */
export function packedBytes(batch: StoreBatch): number {
  let bytes = 0;
  for (const item of batch) {
    if ('packed' in item) bytes += prefixHeaderBytes + item.prefix.length * 3 + item.packed.length;
    else bytes += rowHeaderBytes + item.key.length * 3 + (item.value?.length ?? 0);
  }
  return bytes;
}

export function packBatch(batch: StoreBatch): Uint8Array<ArrayBuffer> {
  const packed = new Uint8Array(packedBytes(batch));
  return packed.subarray(0, packInto(packed, 0, batch));
}

/** Returns the end of the packed batch. `packed` must have `packedBytes` bytes after `start`. */
export function packInto(packed: Uint8Array, start: number, batch: StoreBatch): number {
  let at = start;
  /** Consecutive items with the same prefix share it. */
  let prefix: string | undefined;
  let rowsBytesAt = 0;
  for (const item of batch) {
    if ('packed' in item) {
      if (item.prefix !== prefix) {
        rowsBytesAt = at + 4;
        at = packPrefix(packed, at, item.prefix);
        prefix = item.prefix;
      }
      packed.set(item.packed, at);
      at += item.packed.length;
      writeUint32(packed, rowsBytesAt, readUint32(packed, rowsBytesAt) + item.packed.length);
    } else {
      prefix = undefined;
      at = packRow(packed, at, item);
    }
  }
  return at;
}

function packRow(packed: Uint8Array, at: number, { key, value }: StoreWrite): number {
  const keyAt = at + rowHeaderBytes;
  const keyEnd = writeText(packed, keyAt, key);
  writeUint32(packed, at, keyEnd - keyAt);
  writeUint32(packed, at + 4, value === null ? tombstoneLength : value.length);
  if (value === null) return keyEnd;
  packed.set(value, keyEnd);
  return keyEnd + value.length;
}

/** Writes a prefix with no rows yet; returns where they begin. */
function packPrefix(packed: Uint8Array, at: number, prefix: string): number {
  const prefixAt = at + prefixHeaderBytes;
  const prefixEnd = writeText(packed, prefixAt, prefix);
  writeUint32(packed, at, prefixMark);
  writeUint32(packed, at + 4, 0);
  writeUint32(packed, at + 8, prefixEnd - prefixAt);
  return prefixEnd;
}

function writeText(packed: Uint8Array, at: number, text: string): number {
  const end = writeAscii(packed, at, text);
  return end < 0 ? at + encoder.encodeInto(text, packed.subarray(at)).written : end;
}

/** `key` has one character per byte; `at` is the offset of the row. */
export type VisitRow = (key: string, at: number, isTombstone: boolean) => void;

export function visitBatch(packed: Buffer, visit: VisitRow): void {
  for (let at = 0; at < packed.length;) {
    if (readUint32(packed, at) === prefixMark) {
      const prefixAt = at + prefixHeaderBytes;
      const prefixEnd = prefixAt + readUint32(packed, at + 8);
      const end = prefixEnd + readUint32(packed, at + 4);
      const prefix = packed.toString('latin1', prefixAt, prefixEnd);
      for (at = prefixEnd; at < end;) at = visitRow(packed, at, prefix, visit);
    } else at = visitRow(packed, at, '', visit);
  }
}

/** Returns where the next row begins. */
function visitRow(packed: Buffer, at: number, prefix: string, visit: VisitRow): number {
  const keyAt = at + rowHeaderBytes;
  const keyEnd = keyAt + readUint32(packed, at);
  const valueBytes = readUint32(packed, at + 4);
  const isTombstone = valueBytes === tombstoneLength;
  visit(prefix + packed.toString('latin1', keyAt, keyEnd), at, isTombstone);
  return isTombstone ? keyEnd : keyEnd + valueBytes;
}

/**
 * Value of the row at offset `at`. Shares the memory of `packed`; a Uint8Array, because `slice` of a Buffer does not
 * copy.
 */
export function valueAt(packed: Buffer, at: number): Uint8Array | null {
  const from = at + rowHeaderBytes + readUint32(packed, at);
  const valueBytes = readUint32(packed, at + 4);
  return valueBytes === tombstoneLength ? null : new Uint8Array(packed.buffer, packed.byteOffset + from, valueBytes);
}

/** The values share the memory of `packed`. */
export function unpackBatch(packed: Uint8Array): { readonly key: Uint8Array; readonly value: Uint8Array | null }[] {
  const buffer = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  const rows: { key: Uint8Array; value: Uint8Array | null }[] = [];
  visitBatch(buffer, (key, at) => rows.push({ key: keyBytes(key), value: valueAt(buffer, at) }));
  return rows;
}

/** The bytes of a key that has one character per byte. */
export function keyBytes(key: string): Uint8Array {
  return Buffer.from(key, 'latin1');
}
