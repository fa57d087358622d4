/**
 * One log entry. Encoded once when proposed; the same bytes travel and are stored.
 *
 *   kind u8 (0 nothing, 1 command, 2 members) | term u32 big endian | body
 */
import { RemusterError } from '../../base/errors.ts';
import { logEntryBytesMax } from '../../messages/consensus.ts';

const kinds = ['nothing', 'command', 'members'] as const;
export type LogEntryKind = (typeof kinds)[number];

const headBytes = 5;
export const commandBytesMax = logEntryBytesMax - headBytes;

export type LogEntry = {
  readonly index: number;
  readonly term: number;
  readonly kind: LogEntryKind;
  /** The body: a command of the replica, or the members of the group. */
  readonly command: Uint8Array;
  readonly encoded: Uint8Array;
  /** Who of this node waits for it. */
  call: number | undefined;
};

/** How much room `newLogEntry` needs for this body. */
export function logEntryBytes(body: Uint8Array): number {
  return headBytes + body.length;
}

/** `record` is where it is written down; entries that are made together may share memory, because they go together. */
export function newLogEntry(
  index: number,
  term: number,
  kind: LogEntryKind,
  body: Uint8Array,
  call: number | undefined,
  encoded = new Uint8Array(logEntryBytes(body)),
): LogEntry {
  encoded[0] = kinds.indexOf(kind);
  encoded[1] = term >>> 24;
  encoded[2] = term >>> 16;
  encoded[3] = term >>> 8;
  encoded[4] = term;
  encoded.set(body, headBytes);
  // The very bytes that were proposed: whoever proposed them may know what they mean.
  return { index, term, kind, command: body, encoded, call };
}

/** Throws MALFORMED for what is no entry. Keeps `record`. */
export function decodeLogEntry(index: number, encoded: Uint8Array): LogEntry {
  const kind = kinds[encoded[0] ?? kinds.length];
  if (kind === undefined || encoded.length < headBytes) throw new RemusterError('MALFORMED', 'an entry has no head');
  const byte = (at: number): number => encoded[at] as number;
  const term = ((byte(1) << 24) | (byte(2) << 16) | (byte(3) << 8) | byte(4)) >>> 0;
  return { index, term, kind, command: encoded.subarray(headBytes), encoded, call: undefined };
}
