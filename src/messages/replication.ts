/**
 * Messages from the owner of a container to its replicas, and the replica status as the only reply. Every request
 * carries the fence of the owner.
 */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u32, u53, u64 } from './codec/numbers.ts';
import { bytes, text } from './codec/strings.ts';

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];

export const replicationLimits = {
  /** What one commit may write, as `commitBytes` of containers/replication/log-tail.ts counts it: it has to fit into one message. */
  commitBytesMax: 10_300_000,
  commitWritesMax: 100_000,
  stateKeyCharactersMax: 4_000,
} as const;

/** Below what the transport takes in one piece. */
const requestBytesMax = 10_480_000;
const { commitBytesMax, commitWritesMax, stateKeyCharactersMax } = replicationLimits;
/** A character takes at most three bytes. */
const stateKey = text(stateKeyCharactersMax * 3);
const value = bytes(commitBytesMax);

const stateEntry = record('stateEntry', {
  key: field(1, stateKey, 'Of the state of the container.'),
  value: field(2, value, 'Its value.'),
});

const statePosition = record('statePosition', {
  fence: field(1, u64, 'Of the owner that made the last commit.'),
  seq: field(2, u53, 'The number of the last commit.'),
});

/** Each is what it changes, all of it or nothing: rows as base/row-codec.ts packs them. The receiver looks at them. */
const commits = list(value, commitWritesMax);

const ownerFields = {
  pool: field(1, u53, 'The number of the pool.'),
  container: field(2, u32, 'The number of the container.'),
  fence: field(3, u64, 'Under which the sender owns it.'),
  inMemory: field(4, bool, 'The state of this pool is never on a disk.'),
  revision: field(10, u53, 'Of the record by which the receiver is to hold a copy.'),
};

const replicateCommits = message({
  kind: 'replicateCommits',
  tag: 120,
  carrier: 'stream',
  from: members,
  bytesMax: requestBytesMax,
  doc: 'Append these commits to your copy, if it ends where they begin. Without any: where does it stand? Answered by copyStanding.',
  fields: {
    ...ownerFields,
    after: field(5, statePosition, 'The commit before the first of them.'),
    commits: field(6, commits, 'In order, without a gap; of each the rows that it changes, packed.'),
  },
});

const replicateSnapshot = message({
  kind: 'replicateSnapshot',
  tag: 121,
  carrier: 'stream',
  from: members,
  bytesMax: requestBytesMax,
  doc: 'One step of a new copy that is built beside the old one and takes its place at the end. Answered by copyStanding.',
  fields: {
    ...ownerFields,
    snapshot: field(5, u53, 'Tells it from others of this fence; later ones have higher numbers.'),
    step: field(6, u32, 'Steps are done in order and once; 0 begins.'),
    entries: field(7, list(stateEntry, commitWritesMax), 'A part of the state.'),
    commits: field(8, commits, 'Or commits that were made since the beginning.'),
    install: field(
      9,
      optional(statePosition),
      'Where the new copy stands. It is whole now and takes the place of the old one.',
    ),
  },
});

const copyRefusals = ['fenced', 'mismatch', 'full', 'failed', 'corrupt', 'busy'] as const;
/**
 * fenced: a later owner was here. mismatch: not where the request begins. full, failed, corrupt: the disk. busy: too much
 * waits already.
 */
export type ReplicationRefusal = (typeof copyRefusals)[number];

const copyStanding = message({
  kind: 'copyStanding',
  tag: 122,
  carrier: 'stream',
  from: members,
  bytesMax: 1_024,
  doc: 'The answer to replicateCommits and replicateSnapshot: where this copy stands, durably.',
  fields: {
    generation: field(1, u32, 'In which of its lives the node is.'),
    highestFence: field(2, u64, 'The highest fence under which somebody owned it here.'),
    position: field(3, optional(statePosition), 'The last commit that this copy has; absent when it has nothing.'),
    snapshot: field(4, optional(u53), 'The snapshot that is being built,'),
    step: field(5, optional(u32), 'and its last step.'),
    refusal: field(6, optional(enumOf(...copyRefusals)), 'Why nothing was done.'),
  },
});

export const replicationMessages = [replicateCommits, replicateSnapshot, copyStanding] as const;
export type ReplicateCommits = MessageOf<typeof replicateCommits>;
export type ReplicateSnapshot = MessageOf<typeof replicateSnapshot>;
export type ReplicaStatus = MessageOf<typeof copyStanding>;
export type ReplicationRequest = ReplicateCommits | ReplicateSnapshot;
