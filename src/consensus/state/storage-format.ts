/**
 * Store layout of a group, below `consensus/<group>/`:
 *
 *   meta                     hard state: term and vote
 *   head                     the valid snapshot, the base of the log, and the configuration as of the snapshot
 *   snapshot/<number>/<part> the state, in parts
 *   log/<index>              one record per entry
 *
 * Parts of other snapshots and entries up to the base of the log are garbage of an interrupted cleanup.
 */
import type { StoreWrite } from '../../base/ports.ts';
import type { NodeId } from '../../base/ids.ts';
import { createCodec } from '../../messages/codec/codec.ts';
import { field, optional } from '../../messages/codec/compound.ts';
import { groupMembers } from '../../messages/consensus.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { u32, u53 } from '../../messages/codec/numbers.ts';
import { nodeId } from '../../messages/codec/strings.ts';
import type { LogEntry } from './log-entry.ts';
import type { GroupMember } from './state-machine.ts';
import type { LogPosition } from './replicated-log.ts';
import type { Snapshot } from './snapshot.ts';

const noSenders = [] as const;

const meta = message({
  kind: 'meta',
  tag: 1,
  carrier: 'stream',
  from: noSenders,
  bytesMax: 256,
  doc: 'Term and vote.',
  fields: {
    term: field(1, u32, 'Highest known term.'),
    vote: field(2, optional(nodeId), 'Vote in that term.'),
  },
});

const head = message({
  kind: 'head',
  tag: 2,
  carrier: 'stream',
  from: noSenders,
  bytesMax: 65_536,
  doc: 'The valid snapshot and the base of the log.',
  fields: {
    number: field(1, u53, 'Number of the snapshot.'),
    index: field(2, u53, 'Index of its last entry.'),
    term: field(3, u32, 'Term of that entry.'),
    baseIndex: field(4, u53, 'Index of the last compacted entry.'),
    baseTerm: field(5, u32, 'Term of that entry.'),
    totalBytes: field(6, u53, 'Size of the state.'),
    checksum: field(7, u32, 'CRC-32 of the state.'),
    members: field(8, groupMembers, 'Configuration as of the snapshot.'),
  },
});

const configurationRecord = message({
  kind: 'members',
  tag: 3,
  carrier: 'stream',
  from: noSenders,
  bytesMax: 65_536,
  doc: 'Body of a configuration entry.',
  fields: { members: field(1, groupMembers, 'Members of the group.') },
});

const codec = createCodec([meta, head, configurationRecord] as const);

export type HardState = MessageOf<typeof meta>;
export type SnapshotHead = MessageOf<typeof head>;

export const storageKeys = (group: string) => {
  const root = `consensus/${group}/`;
  const number = (value: number): string => String(value).padStart(13, '0');
  return {
    meta: `${root}meta`,
    head: `${root}head`,
    log: `${root}log/`,
    snapshots: `${root}snapshot/`,
    entry: (index: number) => `${root}log/${number(index)}`,
    part: (snapshot: number, part: number) => `${root}snapshot/${number(snapshot)}/${number(part)}`,
  };
};

export type StorageKeys = ReturnType<typeof storageKeys>;

/** Throws a decode error for invalid bytes. */
export function readHardState(bytes: Uint8Array): HardState | undefined {
  const value = codec.decode(bytes);
  return value.kind === 'meta' ? value : undefined;
}

export function readSnapshotHead(bytes: Uint8Array): SnapshotHead | undefined {
  const value = codec.decode(bytes);
  return value.kind === 'head' ? value : undefined;
}

export function encodeConfiguration(members: readonly GroupMember[]): Uint8Array {
  return codec.encode({ kind: 'members', members });
}

/** Throws a decode error for invalid bytes. */
export function decodeConfiguration(bytes: Uint8Array): readonly GroupMember[] {
  const value = codec.decode(bytes);
  return value.kind === 'members' ? value.members : [];
}

export function hardStateWrite(keys: StorageKeys, term: number, vote: NodeId | undefined): StoreWrite {
  return { key: keys.meta, value: codec.encode({ kind: 'meta', term, vote }) };
}

export function logEntryWrites(keys: StorageKeys, entries: readonly LogEntry[]): StoreWrite[] {
  return entries.map(({ index, encoded }) => ({ key: keys.entry(index), value: encoded }));
}

export function snapshotHeadWrite(keys: StorageKeys, snapshot: Snapshot, base: LogPosition): StoreWrite {
  const { number, index, term, members, state } = snapshot;
  const { length: totalBytes, checksum } = state;
  const logBase = { baseIndex: base.index, baseTerm: base.term };
  return {
    key: keys.head,
    value: codec.encode({ kind: 'head', number, index, term, ...logBase, totalBytes, checksum, members }),
  };
}

export function snapshotPartWrites(
  keys: StorageKeys,
  number: number,
  chunks: readonly Uint8Array[],
  firstPart = 0,
): StoreWrite[] {
  return chunks.map((value, i) => ({ key: keys.part(number, firstPart + i), value }));
}
