/**
 * Encodes a batch of store rows as one byte string, once, for logs and the wire. Knows no key prefix; `isPackedRows`
 * validates untrusted bytes.
 *
 *   { key length (4), value length or 2^32-1 for none (4), key in UTF-8, value }*   numbers in big endian
 */
import { assert } from './assert.ts';
import type { StoreRows, StoreWrite } from './ports.ts';

export const rowHeaderBytes = 8;
export const tombstoneLength = 0xffff_ffff;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Keys are well-formed text. */
export function packRows(rows: readonly StoreWrite[]): Uint8Array {
  let bytes = 0;
  for (const { key, value } of rows) bytes += rowHeaderBytes + key.length + (value === null ? 0 : value.length);
  const packed = new Uint8Array(bytes);
  let at = 0;
  for (const { key, value } of rows) {
    const end = writeAscii(packed, at + rowHeaderBytes, key);
    if (end < 0) return packAnyRows(rows);
    writeUint32(packed, at, key.length);
    writeUint32(packed, at + 4, value === null ? tombstoneLength : value.length);
    at = end;
    if (value === null) continue;
    packed.set(value, at);
    at += value.length;
  }
  return packed;
}

/** The values are views of `packed`. */
export function unpackRows({ prefix, packed }: StoreRows): StoreWrite[] {
  const rows: StoreWrite[] = [];
  for (let at = 0; at < packed.length;) {
    const keyAt = at + rowHeaderBytes;
    const keyEnd = keyAt + readUint32(packed, at);
    const valueBytes = readUint32(packed, at + 4);
    at = valueBytes === tombstoneLength ? keyEnd : keyEnd + valueBytes;
    assert(at <= packed.length, 'packed rows are complete');
    const key = prefix + decoder.decode(packed.subarray(keyAt, keyEnd));
    rows.push({ key, value: valueBytes === tombstoneLength ? null : packed.subarray(keyEnd, at) });
  }
  return rows;
}

/** Validates untrusted bytes: complete rows within both limits, keys in UTF-8. */
export function isPackedRows(packed: Uint8Array, rowsMax: number, keyBytesMax: number): boolean {
  let count = 0;
  for (let at = 0; at < packed.length; count++) {
    const keyAt = at + rowHeaderBytes;
    if (keyAt > packed.length || count === rowsMax) return false;
    const keyBytes = readUint32(packed, at);
    const valueBytes = readUint32(packed, at + 4);
    at = keyAt + keyBytes + (valueBytes === tombstoneLength ? 0 : valueBytes);
    if (keyBytes > keyBytesMax || at > packed.length || !isText(packed, keyAt, keyAt + keyBytes)) return false;
  }
  return true;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  const high = bytes[at] as number;
  return (
    high * 0x100_0000 +
    (((bytes[at + 1] as number) << 16) | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number))
  );
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

/** Returns the end; -1 if the text is not ASCII. For short keys the loop costs less than a call of TextEncoder. */
export function writeAscii(bytes: Uint8Array, start: number, text: string): number {
  const { length } = text;
  let all = 0;
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    all |= code;
    bytes[start + i] = code;
  }
  return all < 0x80 ? start + length : -1;
}

function packAnyRows(rows: readonly StoreWrite[]): Uint8Array {
  const keys = rows.map(({ key }) => encoder.encode(key));
  let bytes = 0;
  for (const [i, { value }] of rows.entries()) bytes += rowHeaderBytes + (keys[i]?.length ?? 0) + (value?.length ?? 0);
  const packed = new Uint8Array(bytes);
  let at = 0;
  for (const [i, { value }] of rows.entries()) {
    const key = keys[i] as Uint8Array;
    writeUint32(packed, at, key.length);
    writeUint32(packed, at + 4, value === null ? tombstoneLength : value.length);
    packed.set(key, at + rowHeaderBytes);
    at += rowHeaderBytes + key.length;
    if (value !== null) packed.set(value, at);
    at += value?.length ?? 0;
  }
  return packed;
}

function isText(bytes: Uint8Array, start: number, end: number): boolean {
  let all = 0;
  for (let at = start; at < end; at++) all |= bytes[at] as number;
  if (all < 0x80) return true;
  try {
    decoder.decode(bytes.subarray(start, end));
    return true;
  } catch {
    return false;
  }
}
