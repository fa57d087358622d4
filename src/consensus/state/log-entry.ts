/**
 * One log entry. Encoded once when proposed; the same bytes travel and are stored.
 *
 *   kind u8 (0 noop, 1 command, 2 configuration) | term u32 big endian | body
 */
import { RemusterError } from '../../base/errors.ts';
import { logEntryBytesMax } from '../../messages/consensus.ts';

const kinds = ['noop', 'command', 'configuration'] as const;
export type LogEntryKind = (typeof kinds)[number];

const headBytes = 5;
export const commandBytesMax = logEntryBytesMax - headBytes;

export type LogEntry = {
  readonly index: number;
  readonly term: number;
  readonly kind: LogEntryKind;
  /** The body: a command of the state machine, or a configuration. */
  readonly command: Uint8Array;
  readonly encoded: Uint8Array;
  /** The pending call of this node that the entry completes. */
  call: number | undefined;
};

/** Size of the encoded entry with this body. */
export function logEntryBytes(body: Uint8Array): number {
  return headBytes + body.length;
}

/** `encoded` receives the entry. Entries of one batch may share a buffer, because they are compacted together. */
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
  // The proposed bytes by identity: the state machine of the proposer may have them decoded already.
  return { index, term, kind, command: body, encoded, call };
}

/** Throws MALFORMED for an invalid entry. Keeps a view of `encoded`. */
export function decodeLogEntry(index: number, encoded: Uint8Array): LogEntry {
  const kind = kinds[encoded[0] ?? kinds.length];
  if (kind === undefined || encoded.length < headBytes)
    throw new RemusterError('MALFORMED', 'a log entry has no valid head');
  const byte = (at: number): number => encoded[at] as number;
  const term = ((byte(1) << 24) | (byte(2) << 16) | (byte(3) << 8) | byte(4)) >>> 0;
  return { index, term, kind, command: encoded.subarray(headBytes), encoded, call: undefined };
}
