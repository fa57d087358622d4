/**
 * The replica's side: handles commits and snapshot steps in order, writes what `replica-log.ts` decides, and replies
 * with its durable position.
 */
import type { Done, RemusterError } from '../../base/errors.ts';
import { failure, success } from '../../base/errors.ts';
import { isPackedRows } from '../../base/row-codec.ts';
import type { StoreRows, StoreWrite } from '../../base/ports.ts';
import {
  type ReplicationRequest,
  type ReplicationRefusal,
  type ReplicaStatus,
  type ReplicateSnapshot,
  replicationLimits,
} from '../../messages/replication.ts';
import type { StateEntry } from '../contract.ts';
import type { PendingAppend, ReplicaStore } from './replica-store.ts';
import { type StateSlot, isSameSlot, slotPrefix } from './replica-layout.ts';
import { type ReplicaDecision, acceptCommits, acceptSnapshotStep } from './replica-log.ts';

export type ReplicaServerContext = {
  readonly generation: number;
  /** Called when a slot of the replica is no longer needed. */
  readonly collectSlots: (replica: ReplicaStore) => void;
};

const noDecision = { slot: undefined, skip: 0, refusal: undefined } as const;
/** Per write; a larger request is written alone. */
const batchBytesMax = 4 * 2 ** 20;
/** Requests of one container that wait for the next write. */
const appendsMax = 64;

export function handleReplication(
  context: ReplicaServerContext,
  replica: ReplicaStore,
  request: ReplicationRequest,
  reply: Done<ReplicaStatus>,
): void {
  // Packed commits are stored unchanged, so they are checked here.
  if (!request.commits.every(isCommit)) return reply(failure('MALFORMED', 'malformed commit: not a list of rows'));
  const isAccepted =
    request.kind === 'replicateCommits'
      ? queueAppend(context, replica, { request, reply })
      : replica.runExclusive((release, error) => {
          const end = replyAll(context, replica, [{ reply }], release);
          if (error !== undefined) return end([refusalOf(error)]);
          writeSnapshotStep(context, replica, request, (refusal) => end([refusal]));
        });
  if (!isAccepted) reply(success(statusOf(context, replica, 'busy')));
}

function isCommit(packed: Uint8Array): boolean {
  const { commitWritesMax, stateKeyCharactersMax } = replicationLimits;
  return isPackedRows(packed, commitWritesMax, stateKeyCharactersMax * 3);
}

/** Requests that arrive while the disk is busy are written together, in order of arrival. */
function queueAppend(context: ReplicaServerContext, replica: ReplicaStore, append: PendingAppend): boolean {
  const { appends } = replica;
  if (appends.length >= appendsMax) return false;
  if (appends.push(append) > 1) return true;
  replica.storage.groupCommit.beforeWrite(() => {
    if (appends.length > 0 && !drainAppends(context, replica)) refuseAppends(context, replica);
  });
  return true;
}

/**
 * Invariant: while appends wait, an exclusive operation for them is queued, or the next write of the disk queues one.
 */
function drainAppends(context: ReplicaServerContext, replica: ReplicaStore): boolean {
  return replica.runExclusive((release, error) => {
    const group = takeBatch(replica.appends);
    if (replica.appends.length > 0 && !drainAppends(context, replica)) refuseAppends(context, replica);
    const end = replyAll(context, replica, group, release);
    const refusal = error === undefined ? (replica.isCorrupt ? 'corrupt' : undefined) : refusalOf(error);
    if (refusal !== undefined) return end(group.map(() => refusal));
    writeCommits(context, replica, group, end);
  });
}

function refuseAppends(context: ReplicaServerContext, replica: ReplicaStore): void {
  for (const { reply } of replica.appends.splice(0)) reply(success(statusOf(context, replica, 'busy')));
}

function takeBatch(appends: PendingAppend[]): readonly PendingAppend[] {
  let bytes = 0;
  let count = 0;
  for (const { request } of appends) {
    for (const { length } of request.commits) bytes += length;
    if (count > 0 && bytes > batchBytesMax) break;
    count += 1;
  }
  return appends.splice(0, count);
}

/** Replies to all requests with the position of the replica after the write. */
function replyAll(
  context: ReplicaServerContext,
  replica: ReplicaStore,
  requests: readonly Pick<PendingAppend, 'reply'>[],
  release: () => void,
): (refusals: readonly (ReplicationRefusal | undefined)[]) => void {
  return (refusals) => {
    const statuses = refusals.map((refusal) => statusOf(context, replica, refusal));
    release();
    for (const [at, { reply }] of requests.entries()) reply(success(statuses[at] as ReplicaStatus));
  };
}

function writeCommits(
  context: ReplicaServerContext,
  replica: ReplicaStore,
  group: readonly PendingAppend[],
  end: (refusals: readonly (ReplicationRefusal | undefined)[]) => void,
): void {
  const before: ReplicaDecision = { ...noDecision, meta: replica.meta, install: replica.install };
  const rows = new RowBatchBuilder();
  const refusals: (ReplicationRefusal | undefined)[] = [];
  let decision = before;
  for (const { request } of group) {
    decision = acceptCommits(decision.meta, decision.install, request);
    refusals.push(decision.refusal);
    if (decision.slot !== undefined) rows.add(replica, decision.slot, request.commits.slice(decision.skip));
  }
  const isNothing = rows.batch.length === 0 && decision.meta.maxFence === before.meta.maxFence;
  if (isNothing && decision.meta.position === before.meta.position) return end(refusals);
  write(context, replica, before, decision, rows, (refusal) => end(refusals.map((own) => refusal ?? own)));
}

function writeSnapshotStep(
  context: ReplicaServerContext,
  replica: ReplicaStore,
  request: ReplicateSnapshot,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  const { meta, install } = replica;
  const decision = acceptSnapshotStep(meta, install, request);
  const { slot } = decision;
  if (slot === undefined && decision.meta.maxFence === meta.maxFence) return end(decision.refusal);
  const rows = new RowBatchBuilder();
  if (slot !== undefined) rows.add(replica, slot, request.commits, request.entries);
  // Set before its rows are written, so that slot garbage collection keeps them.
  if (slot !== undefined) replica.install = { slot, step: request.step };
  write(context, replica, { ...decision, meta, install }, decision, rows, (refusal) =>
    end(refusal ?? decision.refusal),
  );
}

/** Ends with the reason if the write failed. */
function write(
  context: ReplicaServerContext,
  replica: ReplicaStore,
  before: ReplicaDecision,
  decision: ReplicaDecision,
  { batch, bytes }: RowBatchBuilder,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  replica.write(batch, bytes, decision.meta, (outcome) => {
    replica.install = outcome.ok ? decision.install : before.install;
    if (abandonsSlot(before.meta.slot, decision) || abandonsSlot(before.install?.slot, decision))
      context.collectSlots(replica);
    end(outcome.ok ? undefined : refusalOf(outcome.error));
  });
}

function abandonsSlot(slot: StateSlot | undefined, { meta, install }: ReplicaDecision): boolean {
  return slot !== undefined && !isSameSlot(slot, meta.slot) && !isSameSlot(slot, install?.slot);
}

/** Collects the rows of one write, in order. */
class RowBatchBuilder {
  readonly batch: (StoreWrite | StoreRows)[] = [];
  bytes = 0;

  add(
    replica: ReplicaStore,
    slot: StateSlot,
    commits: readonly Uint8Array[],
    entries: readonly StateEntry[] = [],
  ): void {
    const prefix = slotPrefix(replica.pool, replica.container, slot);
    for (const packed of commits) {
      this.batch.push({ prefix, packed });
      this.bytes += prefix.length + packed.length;
    }
    for (const { key, value } of entries) {
      this.batch.push({ key: prefix + key, value });
      this.bytes += prefix.length + key.length + value.length;
    }
  }
}

function statusOf(
  { generation }: ReplicaServerContext,
  { meta, install }: ReplicaStore,
  refusal: ReplicationRefusal | undefined,
): ReplicaStatus {
  return {
    kind: 'replicaStatus',
    generation,
    highestFence: meta.maxFence,
    position: meta.slot === undefined ? undefined : meta.position,
    snapshot: install?.slot.snapshot,
    step: install?.step,
    refusal,
  };
}

function refusalOf({ code }: RemusterError): ReplicationRefusal {
  if (code === 'STORE_FULL') return 'full';
  return code === 'STORE_CORRUPT' ? 'corrupt' : 'failed';
}
