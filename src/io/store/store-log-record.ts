/**
 * Layout of one log record: length, CRC-32, sequence number, payload, padding. Sequence numbers never repeat, which
 * identifies records of an earlier use of the file. Knows no files.
 *
 *   record = payload length (4) | CRC-32 of the rest (4) | number (8) | payload | zeros up to a multiple of 8
 */
import { crc32 } from 'node:zlib';

export type StoreLogGroup = { readonly number: number; readonly payload: Buffer };

export const storeLogHeaderBytes = 16;
/** Records begin at multiples of this. */
export const storeLogAlignment = 8;
const crcAt = 4;
const numberAt = 8;

export function storeLogRecordBytes(payloadBytes: number): number {
  return Math.ceil((storeLogHeaderBytes + payloadBytes) / storeLogAlignment) * storeLogAlignment;
}

export function writeStoreLogHeader(header: Buffer, number: number, payload: Uint8Array): void {
  header.writeUInt32BE(payload.length, 0);
  header.writeDoubleBE(number, numberAt);
  header.writeUInt32BE(crc32(payload, crc32(header.subarray(numberAt))), crcAt);
}

/** Payload length, if a header begins at offset `at`. */
export function storeLogPayloadBytesAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32BE(at);
}

/** Sequence number, if a header begins at offset `at`. */
export function storeLogSequenceAt(bytes: Buffer, at: number): number {
  return bytes.readDoubleBE(at + numberAt);
}

/** Undefined if no whole, undamaged record begins at offset `at`. The payload shares the memory of `bytes`. */
export function storeLogGroupAt(bytes: Buffer, at: number): StoreLogGroup | undefined {
  if (at + storeLogHeaderBytes > bytes.length) return undefined;
  const number = storeLogSequenceAt(bytes, at);
  const end = at + storeLogHeaderBytes + storeLogPayloadBytesAt(bytes, at);
  if (!Number.isSafeInteger(number) || number < 1 || end > bytes.length) return undefined;
  if (crc32(bytes.subarray(at + numberAt, end)) !== bytes.readUInt32BE(at + crcAt)) return undefined;
  return { number, payload: bytes.subarray(at + storeLogHeaderBytes, end) };
}
