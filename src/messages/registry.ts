/**
 * Requests of any node to the managers that hold the registry, and their replies. The bytes of a write request are the
 * log command.
 */
import { type LeaseId, registryLimits } from '../base/registry.ts';
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import type { FieldType, ValueOf } from './codec/field-type.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, stateChanged, u16, u32, u53 } from './codec/numbers.ts';
import { bytes, nodeId, text } from './codec/strings.ts';

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const { keyBytesMax, valueBytesMax, transactionBytesMax, transactionOpsMax, rangeLimitMax } = registryLimits;
/** A bound of a range is a key and the mark behind it. */
const boundBytesMax = keyBytesMax + 4;
const smallBytesMax = 4_096;
/** Below what the transport takes in one piece; what is in it is bounded by the key space. */
const answerBytesMax = 10_000_000;
/** As many changes as one revision may have, and as many revisions as fit. */
const changesMax = 100_000;

export const leaseId = text(19) as FieldType<LeaseId>;
const bound = text(boundBytesMax);

export const registryEntry = record('registryEntry', {
  key: field(1, text(keyBytesMax), 'The key.'),
  value: field(2, bytes(valueBytesMax), 'Its value.'),
  createRevision: field(3, u53, 'The revision that created it.'),
  modRevision: field(4, u53, 'The revision that changed it last.'),
  version: field(5, u53, 'How often it was written since its creation.'),
  lease: field(6, optional(leaseId), 'The lease it ends with.'),
});

const registryCompare = record('registryCompare', {
  key: field(1, text(keyBytesMax), 'Whose property is compared.'),
  target: field(2, enumOf('version', 'createRevision', 'modRevision', 'value'), 'Which property.'),
  is: field(3, enumOf('equal', 'less', 'greater', 'notEqual'), 'How it must be.'),
  than: field(4, optional(u53), 'Compared with this number,'),
  value: field(5, optional(bytes(valueBytesMax)), 'or with these bytes.'),
});

const registryOp = record('registryOp', {
  kind: field(1, enumOf('put', 'delete', 'read'), 'What is done.'),
  from: field(2, bound, 'The key of a put, otherwise the first key of the range.'),
  to: field(3, optional(bound), 'The first key behind the range; not in a put.'),
  value: field(4, optional(bytes(valueBytesMax)), 'Of a put.'),
  lease: field(5, optional(leaseId), 'Of a put, if the key ends with one.'),
  limit: field(6, optional(u32), 'Of a read.'),
});

const registryOpResult = record('registryOpResult', {
  kind: field(1, enumOf('put', 'delete', 'read'), 'As in the operation.'),
  deleted: field(2, optional(u53), 'How many keys a delete found.'),
  entries: field(3, optional(list(registryEntry, rangeLimitMax)), 'What a read found.'),
  more: field(4, optional(bool), 'There are further keys beyond what was read.'),
});

const registryChange = record('registryChange', {
  put: field(1, optional(registryEntry), 'What was written,'),
  delete: field(2, optional(text(keyBytesMax)), 'or the key that was deleted.'),
});

export const registryRevision = record('registryRevision', {
  revision: field(1, u53, 'The revision.'),
  changes: field(2, list(registryChange, changesMax), 'In order.'),
});

export type WireOp = ValueOf<typeof registryOp>;
export type WireCompare = ValueOf<typeof registryCompare>;
export type WireOpResult = ValueOf<typeof registryOpResult>;
export type WireRevision = ValueOf<typeof registryRevision>;

/** Who asks, and for the how-manyth time: executed once, however often it arrives. */
const requestIdFields = {
  client: field(1, nodeId, 'The node that asks,'),
  generation: field(2, u32, 'in which of its lives,'),
  counter: field(3, u53, 'and the number of the request in that life.'),
  lowest: field(4, u53, 'The lowest number to which it still waits for an answer.'),
};

const ops = list(registryOp, transactionOpsMax);

export const registryTransact = message({
  kind: 'registryTransact',
  tag: 80,
  carrier: 'stream',
  from: members,
  bytesMax: transactionBytesMax + 300_000,
  doc: 'Change keys if they are as expected. Answered by registryTransacted or registryRefusal.',
  fields: {
    ...requestIdFields,
    compare: field(5, list(registryCompare, transactionOpsMax), 'What must hold,'),
    then: field(6, ops, 'for these to be done,'),
    otherwise: field(7, ops, 'or these instead.'),
  },
});

export const registryGrant = message({
  kind: 'registryGrant',
  tag: 81,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'Give me a lease. Answered by registryGranted or registryRefusal.',
  fields: { ...requestIdFields, ttlMs: field(5, u32, 'How long it lasts without a renewal.') },
});

export const registryRevoke = message({
  kind: 'registryRevoke',
  tag: 82,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'End a lease and its keys. Answered by registryDone or registryRefusal.',
  fields: { ...requestIdFields, lease: field(5, leaseId, 'Which lease.') },
});

const registryTransacted = message({
  kind: 'registryTransacted',
  tag: 85,
  carrier: 'stream',
  from: members,
  bytesMax: answerBytesMax,
  doc: 'The answer to registryTransact.',
  fields: {
    succeeded: field(1, bool, 'All comparisons held.'),
    revision: field(2, u53, 'Of the key space afterwards.'),
    results: field(3, list(registryOpResult, transactionOpsMax), 'One for each operation.'),
  },
});

const registryGranted = message({
  kind: 'registryGranted',
  tag: 86,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'The answer to registryGrant and to registryKeepAlive.',
  fields: { lease: field(1, leaseId, 'The lease.'), ttlMs: field(2, u32, 'Its full time, which begins now.') },
});

const registryDone = message({
  kind: 'registryDone',
  tag: 87,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'It is done: the answer to registryRevoke.',
  fields: {},
});

const registryRefusal = message({
  kind: 'registryRefusal',
  tag: 88,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'It was not done, or nobody can say: the code tells which.',
  fields: {
    code: field(1, text(40), 'An error code.'),
    message: field(2, text(1_000), 'For people.'),
    leader: field(3, optional(nodeId), 'Who leads, if the one who was asked does not,'),
    host: field(4, optional(text(255)), 'and where'),
    port: field(5, optional(u16), 'it is.'),
    stateChanged: field(6, stateChanged, 'Whether it had an effect.'),
  },
});

const range = { from: field(1, bound, 'The first key,'), to: field(2, bound, 'and the first key behind the range.') };

const registryRange = message({
  kind: 'registryRange',
  tag: 89,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'What is there? Answered by registryEntries or registryRefusal.',
  fields: {
    ...range,
    limit: field(3, u32, 'At most so many.'),
    stale: field(4, bool, 'What the receiver has, perhaps old. Otherwise only a leader answers.'),
  },
});

const registryEntries = message({
  kind: 'registryEntries',
  tag: 90,
  carrier: 'stream',
  from: members,
  bytesMax: answerBytesMax,
  doc: 'The answer to registryRange.',
  fields: {
    entries: field(1, list(registryEntry, rangeLimitMax), 'In order.'),
    more: field(2, bool, 'There are further keys beyond these.'),
    revision: field(3, u53, 'Of the key space when it was read.'),
  },
});

const registryKeepAlive = message({
  kind: 'registryKeepAlive',
  tag: 91,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'The holder of a lease lives. Answered by registryGranted or registryRefusal.',
  fields: { lease: field(1, leaseId, 'Which lease.') },
});

const registryWatch = message({
  kind: 'registryWatch',
  tag: 93,
  carrier: 'stream',
  from: members,
  bytesMax: smallBytesMax,
  doc: 'What has changed since? Any manager answers, with registryChanges or registryRefusal, when there is something.',
  fields: {
    ...range,
    fromRevision: field(3, u53, 'Everything before it is known.'),
    waitMs: field(4, u32, 'Answer after this time also when there is nothing.'),
  },
});

const registryChanges = message({
  kind: 'registryChanges',
  tag: 94,
  carrier: 'stream',
  from: members,
  bytesMax: answerBytesMax,
  doc: 'The answer to registryWatch.',
  fields: {
    revisions: field(1, list(registryRevision, changesMax), 'In order, each whole.'),
    next: field(2, u53, 'Where to go on.'),
    oldestRevision: field(3, optional(u53), 'History before this one is gone: the watch is over.'),
  },
});

export const registryMessages = [
  registryTransact,
  registryGrant,
  registryRevoke,
  registryTransacted,
  registryGranted,
  registryDone,
  registryRefusal,
  registryRange,
  registryEntries,
  registryKeepAlive,
  registryWatch,
  registryChanges,
] as const;

export type RegistryMessage = MessageOf<typeof registryMessages>;
