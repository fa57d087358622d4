/**
 * What the registry writes into its log and snapshots besides client requests. Never sent to another node as a message,
 * so not in the catalogue.
 */
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
/** Smaller than what one entry of the log may be. */
export const registryRestorePartBytesMax = 1_048_576;
/** An image is cut into parts of about this size; one part may hold one large thing more. */
export const registrySnapshotPartBytes = 262_144;
export const registrySnapshotPartBytesMax = 64_000_000;
const itemsMax = 1_000_000;

const registryExpire = message({
  kind: 'registryExpire',
  tag: 83,
  carrier: 'stream',
  from: managers,
  bytesMax: 256,
  doc: 'The leader has not heard of the holder of a lease in time: it ends with its keys.',
  fields: { lease: field(1, leaseId, 'Which lease.') },
});

const registryRestorePart = message({
  kind: 'registryRestorePart',
  tag: 84,
  carrier: 'stream',
  from: managers,
  bytesMax: registryRestorePartBytesMax + 256,
  doc: 'A part of a backup, in order; the last one replaces the key space by it.',
  fields: {
    id: field(1, text(32), 'Which restoring it belongs to: another one gives up the one before.'),
    offset: field(2, u53, 'Where the part belongs: 0 begins anew.'),
    bytes: field(3, bytes(registryRestorePartBytesMax), 'The part.'),
    last: field(4, bool, 'It is the last one.'),
    cluster: field(5, text(63), 'The cluster that this is, to which the backup must belong.'),
  },
});

const imageLease = record('imageLease', {
  lease: field(1, leaseId, 'The lease.'),
  ttlMs: field(2, u32, 'Its full time.'),
});

const imageClient = record('imageClient', {
  client: field(1, nodeId, 'A node that has written,'),
  generation: field(2, u32, 'in its latest life,'),
  lowest: field(3, u53, 'and the lowest request to which it may still want an answer.'),
});

/** `index` orders answers by age; without `answer` only the fact that the request was executed is known. */
const imageAnswer = record('imageAnswer', {
  index: field(1, u53, 'The entry of the log that it answers.'),
  client: field(2, nodeId, 'Who asked.'),
  counter: field(3, u53, 'The number of the request.'),
  answer: field(4, optional(bytes(registrySnapshotPartBytesMax)), 'The answer, as it is sent.'),
});

export type RegistrySnapshotClient = ValueOf<typeof imageClient>;
export type RegistrySnapshotReply = ValueOf<typeof imageAnswer>;

const registryImagePart = message({
  kind: 'registryImagePart',
  tag: 95,
  carrier: 'stream',
  from: managers,
  bytesMax: registrySnapshotPartBytesMax,
  doc: 'A part of the state of a replica.',
  fields: {
    revision: field(1, optional(u53), 'In the first part: the revision,'),
    lastLease: field(2, optional(u53), 'and the last lease that was granted.'),
    leases: field(3, list(imageLease, itemsMax), 'Leases.'),
    entries: field(4, list(registryEntry, itemsMax), 'Keys, in order.'),
    history: field(5, list(registryRevision, itemsMax), 'The last changes, in order.'),
    clients: field(6, list(imageClient, itemsMax), 'From the longest silent to the latest heard.'),
    answers: field(7, list(imageAnswer, itemsMax), 'What they may ask for again.'),
    stagedId: field(8, optional(text(32)), 'The restoring that is under way,'),
    staged: field(9, optional(bytes(registryRestorePartBytesMax)), 'and a part of what has arrived of it.'),
  },
});

const commands = [registryTransact, registryGrant, registryRevoke, registryExpire, registryRestorePart] as const;

export type RegistryCommand = MessageOf<typeof commands>;
export type RegistrySnapshotPart = MessageOf<typeof registryImagePart>;

/** Commands as they stand in the log. */
export const registryCommandCodec = createCodec(commands);
export const registrySnapshotCodec = createCodec([registryImagePart] as const);
