/**
 * Layout of the segments inside a frame. Reading checks each length before use and throws only MALFORMED.
 *
 * A frame is a sequence of segments with a header of 14 bytes, big endian:
 *
 *   kind u8 | flags u8 | id u32 | argument u32 | length u32 | body
 *
 * The meaning of id and argument depends on the kind:
 *
 *   request       id, timeoutMs            reply, error, cancel   id of the request
 *   notify        -                        ping, pong             -
 *   open          stream, credit           data, end, abort       stream
 *   credit        stream, bytes            session, goodbye       -
 *   begin         transfer, total bytes; the body is the header of a message that follows in parts
 *   part, drop    transfer
 */
import { RemusterError } from '../../../base/errors.ts';

export const segmentKinds = {
  request: 1,
  reply: 2,
  error: 3,
  notify: 4,
  open: 5,
  data: 6,
  credit: 7,
  end: 8,
  abort: 9,
  cancel: 10,
  ping: 11,
  pong: 12,
  session: 13,
  begin: 14,
  part: 15,
  drop: 16,
  goodbye: 17,
} as const;

export const segmentKindMax = 17;
export const segmentHeaderBytes = 14;

/** The body is compressed; the body of `begin` has the raw size. */
export const compressedFlag = 1;
/** The receiver of this segment opened the stream. */
export const openedByReceiverFlag = 2;

export type SegmentHeader = {
  readonly kind: number;
  readonly flags: number;
  readonly id: number;
  readonly argument: number;
};

export type SegmentHandler = (kind: number, flags: number, id: number, argument: number, body: Uint8Array) => void;

/** Returns where the next segment begins. The caller guarantees that the segment fits. */
export function writeSegment(
  into: Uint8Array,
  at: number,
  kind: number,
  flags: number,
  id: number,
  argument: number,
  body: Uint8Array,
): number {
  into[at] = kind;
  into[at + 1] = flags;
  writeU32(into, at + 2, id);
  writeU32(into, at + 6, argument);
  writeU32(into, at + 10, body.length);
  into.set(body, at + segmentHeaderBytes);
  return at + segmentHeaderBytes + body.length;
}

export function writeU32(into: Uint8Array, at: number, value: number): void {
  into[at] = value >>> 24;
  into[at + 1] = value >>> 16;
  into[at + 2] = value >>> 8;
  into[at + 3] = value;
}

export function readU32(from: Uint8Array, at: number): number {
  return ((from[at]! << 24) | (from[at + 1]! << 16) | (from[at + 2]! << 8) | from[at + 3]!) >>> 0;
}

/** The number of segments, without validation: `readSegments` reports a malformed frame. */
export function countSegments(frame: Uint8Array): number {
  let count = 0;
  for (let at = 0; at + segmentHeaderBytes <= frame.length; count++) at += segmentHeaderBytes + readU32(frame, at + 10);
  return count;
}

/** The bodies are views of `frame`. */
export function readSegments(frame: Uint8Array, visit: SegmentHandler): void {
  const { buffer, byteOffset, length: end } = frame;
  for (let at = 0; at < end;) {
    if (end - at < segmentHeaderBytes) throw new RemusterError('MALFORMED', 'a segment header is truncated');
    const length = readU32(frame, at + 10);
    const from = at + segmentHeaderBytes;
    if (length > end - from) throw new RemusterError('MALFORMED', 'a segment is longer than its frame');
    const kind = frame[at]!;
    if (kind === 0 || kind > segmentKindMax) throw new RemusterError('MALFORMED', 'a segment of unknown kind');
    const body = new Uint8Array(buffer, byteOffset + from, length);
    visit(kind, frame[at + 1]!, readU32(frame, at + 2), readU32(frame, at + 6), body);
    at = from + length;
  }
}
