/**
 * One entry of the log. It is encoded once, when it is proposed, and these bytes are what travels and what is stored:
 *
 *   kind u8 (0 nothing, 1 command, 2 members) | term u32 big endian | body
 */
import { RemusterError } from '../base/errors.ts';
import { entryBytesMax } from '../messages/consensus.ts';

const kinds = ['nothing', 'command', 'members'] as const;
export type EntryKind = (typeof kinds)[number];

const headBytes = 5;
export const commandBytesMax = entryBytesMax - headBytes;

export type Entry = {
  readonly index: number;
  readonly term: number;
  readonly kind: EntryKind;
  /** The body: a command of the replica, or the members of the group. */
  readonly command: Uint8Array;
  readonly record: Uint8Array;
  /** Who of this node waits for it. */
  call: number | undefined;
};

/** How much room `newEntry` needs for this body. */
export function recordBytes(body: Uint8Array): number {
  return headBytes + body.length;
}

/** `record` is where it is written down; entries that are made together may share memory, because they go together. */
export function newEntry(
  index: number,
  term: number,
  kind: EntryKind,
  body: Uint8Array,
  call: number | undefined,
  record = new Uint8Array(recordBytes(body)),
): Entry {
  record[0] = kinds.indexOf(kind);
  record[1] = term >>> 24;
  record[2] = term >>> 16;
  record[3] = term >>> 8;
  record[4] = term;
  record.set(body, headBytes);
  // The very bytes that were proposed: whoever proposed them may know what they mean.
  return { index, term, kind, command: body, record, call };
}

/** Throws MALFORMED for what is no entry. Keeps `record`. */
export function entryFrom(index: number, record: Uint8Array): Entry {
  const kind = kinds[record[0] ?? kinds.length];
  if (kind === undefined || record.length < headBytes) throw new RemusterError('MALFORMED', 'an entry has no head');
  const byte = (at: number): number => record[at] as number;
  const term = ((byte(1) << 24) | (byte(2) << 16) | (byte(3) << 8) | byte(4)) >>> 0;
  return { index, term, kind, command: record.subarray(headBytes), record, call: undefined };
}
