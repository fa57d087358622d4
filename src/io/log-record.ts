/**
 * One record of the log before a database: how it is framed, and how it is recognised. Each has a number that never comes
 * again, so whatever an earlier use of the file has left behind is recognised. It knows no files, and nothing of what is
 * in a payload.
 *
 *   record = length of the payload (4) | CRC-32 of what follows (4) | number (8) | payload | zeros up to a multiple of 8
 */
import { crc32 } from 'node:zlib';

export type LoggedGroup = { readonly number: number; readonly payload: Buffer };

export const headerBytes = 16;
/** Where records begin. */
export const alignment = 8;
const crcAt = 4;
const numberAt = 8;

export function recordBytes(payloadBytes: number): number {
  return Math.ceil((headerBytes + payloadBytes) / alignment) * alignment;
}

export function writeHeader(header: Buffer, number: number, payload: Uint8Array): void {
  header.writeUInt32BE(payload.length, 0);
  header.writeDoubleBE(number, numberAt);
  header.writeUInt32BE(crc32(payload, crc32(header.subarray(numberAt))), crcAt);
}

/** Of the header that would begin there. */
export function payloadBytesAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at);
}

/** Of the header that would begin there. */
export function numberOf(bytes: Buffer, at: number): number {
  return bytes.readDoubleBE(at + numberAt);
}

/** Undefined for whatever is not a whole record. The payload shares the memory of `bytes`. */
export function groupAt(bytes: Buffer, at: number): LoggedGroup | undefined {
  if (at + headerBytes > bytes.length) return undefined;
  const number = numberOf(bytes, at);
  const end = at + headerBytes + payloadBytesAt(bytes, at);
  if (!Number.isSafeInteger(number) || number < 1 || end > bytes.length) return undefined;
  if (crc32(bytes.subarray(at + numberAt, end)) !== bytes.readUInt32BE(at + crcAt)) return undefined;
  return { number, payload: bytes.subarray(at + headerBytes, end) };
}
