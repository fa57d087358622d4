/**
 * Replica's side: takes commits and snapshot steps in order, writes what `replica-log.ts` decides, replies with its
 * durable position.
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
  /** A slot is no longer needed. */
  readonly sweep: (holding: ReplicaStore) => void;
};

const nothingYet = { slot: undefined, skip: 0, refusal: undefined } as const;
/** In one write; one that is larger alone is written alone. */
const batchBytesMax = 4 * 2 ** 20;
/** Requests of one container that wait to be written together. */
const appendsMax = 64;

export function handleReplication(
  desk: ReplicaServerContext,
  holding: ReplicaStore,
  request: ReplicationRequest,
  reply: Done<ReplicaStatus>,
): void {
  // They go into our log as they are.
  if (!request.commits.every(isCommit)) return reply(failure('MALFORMED', 'a commit is no rows'));
  const isTaken =
    request.kind === 'replicateCommits'
      ? takeAppend(desk, holding, { request, reply })
      : holding.runExclusive((over, error) => {
          const end = ending(desk, holding, [{ reply }], over);
          if (error !== undefined) return end([refusalOf(error)]);
          install(desk, holding, request, (refusal) => end([refusal]));
        });
  if (!isTaken) reply(success(standingOf(desk, holding, 'busy')));
}

function isCommit(packed: Uint8Array): boolean {
  const { commitWritesMax, stateKeyCharactersMax } = replicationLimits;
  return isPackedRows(packed, commitWritesMax, stateKeyCharactersMax * 3);
}

/** What comes while the disk is busy is written together, in the order in which it came. */
function takeAppend(desk: ReplicaServerContext, holding: ReplicaStore, append: PendingAppend): boolean {
  const { appends } = holding;
  if (appends.length >= appendsMax) return false;
  if (appends.push(append) > 1) return true;
  holding.shelf.journal.beforeWrite(() => {
    if (appends.length > 0 && !appendInTurn(desk, holding)) refuseAll(desk, holding);
  });
  return true;
}

/** As long as something waits there is one turn for it, or will be when the disk is free. */
function appendInTurn(desk: ReplicaServerContext, holding: ReplicaStore): boolean {
  return holding.runExclusive((over, error) => {
    const group = firstOf(holding.appends);
    if (holding.appends.length > 0 && !appendInTurn(desk, holding)) refuseAll(desk, holding);
    const end = ending(desk, holding, group, over);
    const refusal = error === undefined ? (holding.isCorrupt ? 'corrupt' : undefined) : refusalOf(error);
    if (refusal !== undefined) return end(group.map(() => refusal));
    append(desk, holding, group, end);
  });
}

function refuseAll(desk: ReplicaServerContext, holding: ReplicaStore): void {
  for (const { reply } of holding.appends.splice(0)) reply(success(standingOf(desk, holding, 'busy')));
}

function firstOf(appends: PendingAppend[]): readonly PendingAppend[] {
  let bytes = 0;
  let count = 0;
  for (const { request } of appends) {
    for (const { length } of request.commits) bytes += length;
    if (count > 0 && bytes > batchBytesMax) break;
    count += 1;
  }
  return appends.splice(0, count);
}

/** All are answered with where the copy is when all has been done. */
function ending(
  desk: ReplicaServerContext,
  holding: ReplicaStore,
  asked: readonly Pick<PendingAppend, 'reply'>[],
  over: () => void,
): (refusals: readonly (ReplicationRefusal | undefined)[]) => void {
  return (refusals) => {
    const standings = refusals.map((refusal) => standingOf(desk, holding, refusal));
    over();
    for (const [at, { reply }] of asked.entries()) reply(success(standings[at] as ReplicaStatus));
  };
}

function append(
  desk: ReplicaServerContext,
  holding: ReplicaStore,
  group: readonly PendingAppend[],
  end: (refusals: readonly (ReplicationRefusal | undefined)[]) => void,
): void {
  const before: ReplicaDecision = { ...nothingYet, meta: holding.meta, building: holding.install };
  const rows = new Rows();
  const refusals: (ReplicationRefusal | undefined)[] = [];
  let received = before;
  for (const { request } of group) {
    received = acceptCommits(received.meta, received.building, request);
    refusals.push(received.refusal);
    if (received.slot !== undefined) rows.add(holding, received.slot, request.commits.slice(received.skip));
  }
  const isNothing = rows.batch.length === 0 && received.meta.maxFence === before.meta.maxFence;
  if (isNothing && received.meta.position === before.meta.position) return end(refusals);
  write(desk, holding, before, received, rows, (refusal) => end(refusals.map((own) => refusal ?? own)));
}

function install(
  desk: ReplicaServerContext,
  holding: ReplicaStore,
  request: ReplicateSnapshot,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  const { meta, install: building } = holding;
  const received = acceptSnapshotStep(meta, building, request);
  const { slot } = received;
  if (slot === undefined && received.meta.maxFence === meta.maxFence) return end(received.refusal);
  const rows = new Rows();
  if (slot !== undefined) rows.add(holding, slot, request.commits, request.entries);
  // Before its rows are written, so that nobody takes them for garbage.
  if (slot !== undefined) holding.install = { slot, step: request.step };
  write(desk, holding, { ...received, meta, building }, received, rows, (refusal) => end(refusal ?? received.refusal));
}

/** Ends with why it could not be written. */
function write(
  desk: ReplicaServerContext,
  holding: ReplicaStore,
  before: ReplicaDecision,
  received: ReplicaDecision,
  { batch, bytes }: Rows,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  holding.write(batch, bytes, received.meta, (outcome) => {
    holding.install = outcome.ok ? received.building : before.building;
    if (leavesSlot(before.meta.slot, received) || leavesSlot(before.building?.slot, received)) desk.sweep(holding);
    end(outcome.ok ? undefined : refusalOf(outcome.error));
  });
}

function leavesSlot(slot: StateSlot | undefined, { meta, building }: ReplicaDecision): boolean {
  return slot !== undefined && !isSameSlot(slot, meta.slot) && !isSameSlot(slot, building?.slot);
}

/** What is to be written into slots, in order. */
class Rows {
  readonly batch: (StoreWrite | StoreRows)[] = [];
  bytes = 0;

  add(
    holding: ReplicaStore,
    slot: StateSlot,
    commits: readonly Uint8Array[],
    entries: readonly StateEntry[] = [],
  ): void {
    const prefix = slotPrefix(holding.pool, holding.container, slot);
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

function standingOf(
  { generation }: ReplicaServerContext,
  { meta, install: building }: ReplicaStore,
  refusal: ReplicationRefusal | undefined,
): ReplicaStatus {
  return {
    kind: 'replicaStatus',
    generation,
    highestFence: meta.maxFence,
    position: meta.slot === undefined ? undefined : meta.position,
    snapshot: building?.slot.snapshot,
    step: building?.step,
    refusal,
  };
}

function refusalOf({ code }: RemusterError): ReplicationRefusal {
  if (code === 'STORE_FULL') return 'full';
  return code === 'STORE_CORRUPT' ? 'corrupt' : 'failed';
}
