/**
 * Requests of any node to the managers that hold the registry, and their replies. The bytes of a write request are the
 * log command.
 */
import { type LeaseId, type RegistryEpoch, registryLimits } from '../base/registry.ts';
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { FieldType, ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, stateChanged, u16, u32, u53 } from './codec/numbers.ts';
import { bytes, nodeId, shortInternedText, text } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const { keyBytesMax, valueBytesMax, transactionBytesMax, transactionOpsMax, rangeLimitMax } = registryLimits;
/** A bound of a range may be a key plus one character. */
const boundBytesMax = keyBytesMax + 4;
const smallBytesMax = 4_096;
/** Below the message limit of the transport; the number of entries is bounded by the key space. */
const answerBytesMax = 10_000_000;
/** Of changes in one revision, and of revisions in one message. */
const changesMax = 100_000;

export const leaseId = text(48) as FieldType<LeaseId>;
/** The same in every reply. */
export const epoch = shortInternedText(64) as FieldType<RegistryEpoch>;
const bound = text(boundBytesMax);

export const registryEntry = record('registryEntry', {
  key: field(1, text(keyBytesMax), 'Key.'),
  value: field(2, bytes(valueBytesMax), 'Value.'),
  createRevision: field(3, u53, 'Revision that created the key.'),
  modRevision: field(4, u53, 'Revision of the last change.'),
  version: field(5, u53, 'Number of writes since the creation.'),
  lease: field(6, optional(leaseId), 'Lease of the key.'),
});

const registryCompare = record('registryCompare', {
  key: field(1, text(keyBytesMax), 'Key to compare.'),
  target: field(2, enumOf('version', 'createRevision', 'modRevision', 'value'), 'Property to compare.'),
  is: field(3, enumOf('equal', 'less', 'greater', 'notEqual'), 'Comparison.'),
  than: field(4, optional(u53), 'Number to compare with.'),
  value: field(5, optional(bytes(valueBytesMax)), 'Bytes to compare with.'),
});

const registryOp = record('registryOp', {
  kind: field(1, enumOf('put', 'delete', 'read'), 'Operation.'),
  from: field(2, bound, 'Key of a put, or the first key of a range.'),
  to: field(3, optional(bound), 'First key after the range; absent in a put.'),
  value: field(4, optional(bytes(valueBytesMax)), 'Value of a put.'),
  lease: field(5, optional(leaseId), 'Lease of a put.'),
  limit: field(6, optional(u32), 'Maximum number of entries of a read.'),
});

const registryOpResult = record('registryOpResult', {
  kind: field(1, enumOf('put', 'delete', 'read'), 'Kind of the operation.'),
  deleted: field(2, optional(u53), 'Number of deleted keys.'),
  entries: field(3, optional(list(registryEntry, rangeLimitMax)), 'Entries of a read.'),
  more: field(4, optional(bool), 'More keys follow beyond the limit.'),
});

const registryChange = record('registryChange', {
  put: field(1, optional(registryEntry), 'Written entry.'),
  delete: field(2, optional(text(keyBytesMax)), 'Or the deleted key.'),
});

export const registryRevision = record('registryRevision', {
  revision: field(1, u53, 'Revision.'),
  changes: field(2, list(registryChange, changesMax), 'Changes in order.'),
});

export type WireOp = ValueOf<typeof registryOp>;
export type WireCompare = ValueOf<typeof registryCompare>;
export type WireOpResult = ValueOf<typeof registryOpResult>;
export type WireRevision = ValueOf<typeof registryRevision>;

/** The request id: a request is executed once, however often it arrives. */
const requestIdFields = {
  client: field(1, nodeId, 'Node id of the client.'),
  generation: field(2, u32, 'Generation of the client.'),
  counter: field(3, u53, 'Number of the request in this generation.'),
  lowestPending: field(4, u53, 'Lowest number that the client still waits for; replies below it may be dropped.'),
};

const ops = list(registryOp, transactionOpsMax);

export const registryTransact = message({
  kind: 'registryTransact',
  tag: 80,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: transactionBytesMax + 300_000,
  doc: 'Executes a transaction. Answered by registryTransactReply or registryError.',
  fields: {
    ...requestIdFields,
    compare: field(5, list(registryCompare, transactionOpsMax), 'Conditions.'),
    then: field(6, ops, 'Operations if all conditions hold.'),
    otherwise: field(7, ops, 'Operations otherwise.'),
  },
});

export const registryGrant = message({
  kind: 'registryGrant',
  tag: 81,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Grants a lease. Answered by registryLeaseReply or registryError.',
  fields: { ...requestIdFields, ttlMs: field(5, u32, 'Time to live without renewal.') },
});

export const registryRevoke = message({
  kind: 'registryRevoke',
  tag: 82,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Revokes a lease and deletes its keys. Answered by registryRevokeReply or registryError.',
  fields: { ...requestIdFields, lease: field(5, leaseId, 'Lease id.') },
});

const registryTransactReply = message({
  kind: 'registryTransactReply',
  tag: 85,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: answerBytesMax,
  doc: 'Reply to registryTransact.',
  fields: {
    succeeded: field(1, bool, 'All conditions held.'),
    revision: field(2, u53, 'Revision after the transaction.'),
    results: field(3, list(registryOpResult, transactionOpsMax), 'One result per operation.'),
    epoch: field(4, epoch, 'Epoch of the revision.'),
  },
});

const registryLeaseReply = message({
  kind: 'registryLeaseReply',
  tag: 86,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Reply to registryGrant and registryKeepAlive.',
  fields: { lease: field(1, leaseId, 'Lease id.'), ttlMs: field(2, u32, 'Full time to live, from now on.') },
});

const registryRevokeReply = message({
  kind: 'registryRevokeReply',
  tag: 87,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Reply to registryRevoke.',
  fields: {},
});

const registryError = message({
  kind: 'registryError',
  tag: 88,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'The request was not executed, or its outcome is unknown: the code tells which.',
  fields: {
    code: field(1, text(40), 'Error code.'),
    message: field(2, text(1_000), 'Message for people.'),
    leader: field(3, optional(nodeId), 'Leader, if the receiver is not.'),
    host: field(4, optional(text(255)), 'Host of the leader.'),
    port: field(5, optional(u16), 'Port of the leader.'),
    stateChanged: field(6, stateChanged, 'Whether the request had an effect.'),
  },
});

const range = { from: field(1, bound, 'First key.'), to: field(2, bound, 'First key after the range.') };

const registryRange = message({
  kind: 'registryRange',
  tag: 89,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Reads a range of keys. Answered by registryRangeReply or registryError.',
  fields: {
    ...range,
    limit: field(3, u32, 'Maximum number of entries.'),
    stale: field(4, bool, 'A stale read from the receiver. Otherwise only the leader replies, linearizably.'),
  },
});

const registryRangeReply = message({
  kind: 'registryRangeReply',
  tag: 90,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: answerBytesMax,
  doc: 'Reply to registryRange.',
  fields: {
    entries: field(1, list(registryEntry, rangeLimitMax), 'Entries by key.'),
    more: field(2, bool, 'More keys follow beyond the limit.'),
    revision: field(3, u53, 'Revision of the read.'),
    epoch: field(4, epoch, 'Epoch of the revision: group id and number of restores.'),
  },
});

const registryKeepAlive = message({
  kind: 'registryKeepAlive',
  tag: 91,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Renews a lease. Answered by registryLeaseReply or registryError.',
  fields: { lease: field(1, leaseId, 'Lease id.') },
});

const registryWatch = message({
  kind: 'registryWatch',
  tag: 93,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: smallBytesMax,
  doc: 'Long poll for changes at any manager. Answered by registryWatchReply or registryError when there are changes.',
  fields: {
    ...range,
    fromRevision: field(3, u53, 'First revision that the sender needs.'),
    waitMs: field(4, u32, 'Time after which the receiver replies without changes.'),
    epoch: field(5, optional(epoch), 'Epoch of that revision; if it has ended, the watch ends as compacted.'),
  },
});

const registryWatchReply = message({
  kind: 'registryWatchReply',
  tag: 94,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: answerBytesMax,
  doc: 'Reply to registryWatch.',
  fields: {
    revisions: field(1, list(registryRevision, changesMax), 'Complete revisions in order.'),
    next: field(2, u53, 'First revision of the next poll.'),
    oldestRevision: field(3, optional(u53), 'History before this revision was compacted: the watch ends.'),
  },
});

export const registryMessages = [
  registryTransact,
  registryGrant,
  registryRevoke,
  registryTransactReply,
  registryLeaseReply,
  registryRevokeReply,
  registryError,
  registryRange,
  registryRangeReply,
  registryKeepAlive,
  registryWatch,
  registryWatchReply,
] as const;

export type RegistryMessage = MessageOf<typeof registryMessages>;
