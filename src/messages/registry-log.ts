/**
 * What the registry writes into its log and snapshots besides client requests. Never sent to another node as a message,
 * so not in the catalogue.
 */
import { groupIdBytes } from '../base/registry-epoch.ts';
import { createCodec } from './codec/codec.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, u32, u53 } from './codec/numbers.ts';
import {
  leaseId,
  registryEntry,
  registryGrant,
  registryRevision,
  registryRevoke,
  registryTransact,
} from './registry.ts';
import { bytes, nodeId, text } from './codec/strings.ts';

const managers = ['manager'] as const;
/** Fits into one log entry. */
export const registryRestorePartBytesMax = 1_048_576;
/** A snapshot is split into parts of about this size; a part may exceed it by one large item. */
export const registrySnapshotPartBytes = 262_144;
export const registrySnapshotPartBytesMax = 64_000_000;
const itemsMax = 1_000_000;
const groupIdCharacters = 2 * groupIdBytes;

const registryExpireLease = message({
  kind: 'registryExpireLease',
  tag: 83,
  carrier: 'stream',
  from: managers,
  bytesMax: 256,
  doc: 'The leader expires a lease that was not renewed in time; its keys are deleted.',
  fields: { lease: field(1, leaseId, 'Lease id.') },
});

const registrySetGroupId = message({
  kind: 'registrySetGroupId',
  tag: 96,
  carrier: 'stream',
  from: managers,
  bytesMax: 64,
  doc: 'The first leader of a group names it; a group that has an id keeps it.',
  fields: { groupId: field(1, text(groupIdCharacters), 'Random id, in hex digits.') },
});

const registryRestorePart = message({
  kind: 'registryRestorePart',
  tag: 84,
  carrier: 'stream',
  from: managers,
  bytesMax: registryRestorePartBytesMax + 256,
  doc: 'A part of a backup, in order; the last part replaces the key space.',
  fields: {
    id: field(1, text(32), 'Id of the restore; a new one cancels the one before.'),
    offset: field(2, u53, 'Offset of the part; 0 restarts.'),
    bytes: field(3, bytes(registryRestorePartBytesMax), 'Bytes of the part.'),
    last: field(4, bool, 'This is the last part.'),
    cluster: field(5, text(63), 'Name of this cluster, which the backup must match.'),
  },
});

const snapshotLease = record('snapshotLease', {
  lease: field(1, leaseId, 'Lease id.'),
  ttlMs: field(2, u32, 'Full time to live.'),
});

const snapshotClient = record('snapshotClient', {
  client: field(1, nodeId, 'Node id of a client.'),
  generation: field(2, u32, 'Latest generation of the client.'),
  lowestPending: field(3, u53, 'Lowest request that the client may still wait for.'),
});

/** `index` orders replies by age. Without `answer` only the fact that the request was executed is known. */
const snapshotReply = record('snapshotReply', {
  index: field(1, u53, 'Log index of the request.'),
  client: field(2, nodeId, 'Node id of the client.'),
  counter: field(3, u53, 'Number of the request.'),
  answer: field(4, optional(bytes(registrySnapshotPartBytesMax)), 'Encoded reply.'),
});

export type RegistrySnapshotClient = ValueOf<typeof snapshotClient>;
export type RegistrySnapshotReply = ValueOf<typeof snapshotReply>;

const snapshotNumbers = record('snapshotNumbers', {
  groupId: field(1, text(groupIdCharacters), 'Id of the group; empty before the first leader has chosen one.'),
  restores: field(2, u53, 'Number of restores; with the id of the group the epoch.'),
  revision: field(3, u53, 'Revision.'),
  lastLease: field(4, u53, 'Number of the last granted lease.'),
});

const registrySnapshotPart = message({
  kind: 'registrySnapshotPart',
  tag: 95,
  carrier: 'stream',
  from: managers,
  bytesMax: registrySnapshotPartBytesMax,
  doc: 'A part of the registry state.',
  fields: {
    leases: field(3, list(snapshotLease, itemsMax), 'Leases.'),
    entries: field(4, list(registryEntry, itemsMax), 'Entries by key.'),
    history: field(5, list(registryRevision, itemsMax), 'Recent revisions in order.'),
    clients: field(6, list(snapshotClient, itemsMax), 'Clients by last request, the oldest first.'),
    answers: field(7, list(snapshotReply, itemsMax), 'Replies that clients may request again.'),
    stagedId: field(8, optional(text(32)), 'Id of the restore in progress.'),
    staged: field(9, optional(bytes(registryRestorePartBytesMax)), 'Received bytes of that restore.'),
    numbers: field(10, optional(snapshotNumbers), 'In the first part only.'),
  },
});

const commands = [
  registryTransact,
  registryGrant,
  registryRevoke,
  registryExpireLease,
  registryRestorePart,
  registrySetGroupId,
] as const;

export type RegistryCommand = MessageOf<typeof commands>;
export type RegistrySnapshotPart = MessageOf<typeof registrySnapshotPart>;

/** Commands in the log. */
export const registryCommandCodec = createCodec(commands);
export const registrySnapshotCodec = createCodec([registrySnapshotPart] as const);
