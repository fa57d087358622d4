/**
 * Messages from the owner of a container to its replicas, and the replica status as the only reply. Every request
 * carries the fence of the owner.
 */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u32, u53, u64 } from './codec/numbers.ts';
import { bytes, text } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];

export const replicationLimits = {
  /** Of one commit, as `commitBytes` in containers/replication/log-tail.ts counts it: it must fit into one message. */
  commitBytesMax: 10_300_000,
  commitWritesMax: 100_000,
  stateKeyCharactersMax: 4_000,
} as const;

/** Below the message limit of the transport. */
const requestBytesMax = 10_480_000;
const { commitBytesMax, commitWritesMax, stateKeyCharactersMax } = replicationLimits;
/** A UTF-16 code unit takes at most three bytes. */
const stateKey = text(stateKeyCharactersMax * 3);
const value = bytes(commitBytesMax);

const stateEntry = record('stateEntry', {
  key: field(1, stateKey, 'Key in the state of the container.'),
  value: field(2, value, 'Its value.'),
});

const statePosition = record('statePosition', {
  fence: field(1, u64, 'Fence of the owner that made the last commit.'),
  seq: field(2, u53, 'Number of the last commit.'),
});

/** Each commit is a batch of rows, packed by base/row-codec.ts. The receiver validates and applies it atomically. */
const commits = list(value, commitWritesMax);

const ownerFields = {
  pool: field(1, u53, 'Number of the pool.'),
  container: field(2, u32, 'Number of the container.'),
  fence: field(3, u64, 'Fence under which the sender owns the container.'),
  inMemory: field(4, bool, 'The pool keeps its state in memory only.'),
  revision: field(10, u53, 'Registry revision of the record that makes the receiver a replica.'),
};

const replicateCommits = message({
  kind: 'replicateCommits',
  tag: 120,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: requestBytesMax,
  doc: 'Appends commits to a replica whose position is `after`. Without commits it asks for the position. Answered by replicaStatus.',
  fields: {
    ...ownerFields,
    after: field(5, statePosition, 'Position before the first commit.'),
    commits: field(6, commits, 'Consecutive commits: the packed rows of each.'),
  },
});

const replicateSnapshot = message({
  kind: 'replicateSnapshot',
  tag: 121,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: requestBytesMax,
  doc: 'One step of a snapshot that is built beside the replica and replaces it at the end. Answered by replicaStatus.',
  fields: {
    ...ownerFields,
    snapshot: field(5, u53, 'Number of the snapshot under this fence; later ones are higher.'),
    step: field(6, u32, 'Steps run in order and once; 0 starts the snapshot.'),
    entries: field(7, list(stateEntry, commitWritesMax), 'Part of the state.'),
    commits: field(8, commits, 'Or commits made since step 0.'),
    install: field(9, optional(statePosition), 'The snapshot is complete at this position and replaces the replica.'),
  },
});

const replicationRefusals = ['fenced', 'mismatch', 'full', 'failed', 'corrupt', 'busy'] as const;
/**
 * fenced: the replica has seen a later owner. mismatch: its position is not where the request begins. full, failed,
 * corrupt: the disk. busy: too many requests wait.
 */
export type ReplicationRefusal = (typeof replicationRefusals)[number];

const replicaStatus = message({
  kind: 'replicaStatus',
  tag: 122,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 1_024,
  doc: 'Reply to replicateCommits and replicateSnapshot: the durable position of the replica.',
  fields: {
    generation: field(1, u32, 'Generation of the node.'),
    highestFence: field(2, u64, 'Highest fence that the replica has seen.'),
    position: field(3, optional(statePosition), 'Last commit of the replica; absent if it has no state.'),
    snapshot: field(4, optional(u53), 'Snapshot in progress.'),
    step: field(5, optional(u32), 'Last step of that snapshot.'),
    refusal: field(6, optional(enumOf(...replicationRefusals)), 'Why the request was refused.'),
  },
});

export const replicationMessages = [replicateCommits, replicateSnapshot, replicaStatus] as const;
export type ReplicateCommits = MessageOf<typeof replicateCommits>;
export type ReplicateSnapshot = MessageOf<typeof replicateSnapshot>;
export type ReplicaStatus = MessageOf<typeof replicaStatus>;
export type ReplicationRequest = ReplicateCommits | ReplicateSnapshot;
