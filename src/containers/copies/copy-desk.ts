/**
 * The side of a copy: takes what owners of other nodes send, in the order in which it comes, writes what receiver.ts
 * decides, and answers with where the copy stands on the disk. Commits that come while a write of the same container is
 * under way go into the next one together. A request never waits for another container, except for the sync of the disk
 * that they share.
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
import type { Append, Holding } from './holding.ts';
import { type Slot, isSameSlot, slotPrefix } from './layout.ts';
import { type Received, receiveCommits, receiveSnapshot } from './receiver.ts';

export type CopyDesk = {
  readonly generation: number;
  /** A slot is no longer needed. */
  readonly sweep: (holding: Holding) => void;
};

const nothingYet = { slot: undefined, skip: 0, refusal: undefined } as const;
/** In one write; one that is larger alone is written alone. */
const jointBytesMax = 4 * 2 ** 20;
/** Requests of one container that wait to be written together. */
const appendsMax = 64;

export function takeRequest(desk: CopyDesk, holding: Holding, request: ReplicationRequest, reply: Done<ReplicaStatus>): void {
  // They go into our log as they are.
  if (!request.commits.every(isCommit)) return reply(failure('MALFORMED', 'a commit is no rows'));
  const isTaken =
    request.kind === 'replicateCommits'
      ? takeAppend(desk, holding, { request, reply })
      : holding.turn((over, error) => {
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
function takeAppend(desk: CopyDesk, holding: Holding, append: Append): boolean {
  const { appends } = holding;
  if (appends.length >= appendsMax) return false;
  if (appends.push(append) > 1) return true;
  holding.shelf.journal.prepare(() => {
    if (appends.length > 0 && !appendInTurn(desk, holding)) refuseAll(desk, holding);
  });
  return true;
}

/** As long as something waits there is one turn for it, or will be when the disk is free. */
function appendInTurn(desk: CopyDesk, holding: Holding): boolean {
  return holding.turn((over, error) => {
    const group = firstOf(holding.appends);
    if (holding.appends.length > 0 && !appendInTurn(desk, holding)) refuseAll(desk, holding);
    const end = ending(desk, holding, group, over);
    const refusal = error === undefined ? (holding.isCorrupt ? 'corrupt' : undefined) : refusalOf(error);
    if (refusal !== undefined) return end(group.map(() => refusal));
    append(desk, holding, group, end);
  });
}

function refuseAll(desk: CopyDesk, holding: Holding): void {
  for (const { reply } of holding.appends.splice(0)) reply(success(standingOf(desk, holding, 'busy')));
}

function firstOf(appends: Append[]): readonly Append[] {
  let bytes = 0;
  let count = 0;
  for (const { request } of appends) {
    for (const { length } of request.commits) bytes += length;
    if (count > 0 && bytes > jointBytesMax) break;
    count += 1;
  }
  return appends.splice(0, count);
}

/** All are answered with where the copy is when all has been done. */
function ending(
  desk: CopyDesk,
  holding: Holding,
  asked: readonly Pick<Append, 'reply'>[],
  over: () => void,
): (refusals: readonly (ReplicationRefusal | undefined)[]) => void {
  return (refusals) => {
    const standings = refusals.map((refusal) => standingOf(desk, holding, refusal));
    over();
    for (const [at, { reply }] of asked.entries()) reply(success(standings[at] as ReplicaStatus));
  };
}

function append(
  desk: CopyDesk,
  holding: Holding,
  group: readonly Append[],
  end: (refusals: readonly (ReplicationRefusal | undefined)[]) => void,
): void {
  const before: Received = { ...nothingYet, meta: holding.meta, building: holding.building };
  const rows = new Rows();
  const refusals: (ReplicationRefusal | undefined)[] = [];
  let received = before;
  for (const { request } of group) {
    received = receiveCommits(received.meta, received.building, request);
    refusals.push(received.refusal);
    if (received.slot !== undefined) rows.add(holding, received.slot, request.commits.slice(received.skip));
  }
  const isNothing = rows.batch.length === 0 && received.meta.seen === before.meta.seen;
  if (isNothing && received.meta.position === before.meta.position) return end(refusals);
  write(desk, holding, before, received, rows, (refusal) => end(refusals.map((own) => refusal ?? own)));
}

function install(
  desk: CopyDesk,
  holding: Holding,
  request: ReplicateSnapshot,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  const { meta, building } = holding;
  const received = receiveSnapshot(meta, building, request);
  const { slot } = received;
  if (slot === undefined && received.meta.seen === meta.seen) return end(received.refusal);
  const rows = new Rows();
  if (slot !== undefined) rows.add(holding, slot, request.commits, request.entries);
  // Before its rows are written, so that nobody takes them for garbage.
  if (slot !== undefined) holding.building = { slot, step: request.step };
  write(desk, holding, { ...received, meta, building }, received, rows, (refusal) => end(refusal ?? received.refusal));
}

/** Ends with why it could not be written. */
function write(
  desk: CopyDesk,
  holding: Holding,
  before: Received,
  received: Received,
  { batch, bytes }: Rows,
  end: (refusal: ReplicationRefusal | undefined) => void,
): void {
  holding.write(batch, bytes, received.meta, (outcome) => {
    holding.building = outcome.ok ? received.building : before.building;
    if (leavesSlot(before.meta.slot, received) || leavesSlot(before.building?.slot, received)) desk.sweep(holding);
    end(outcome.ok ? undefined : refusalOf(outcome.error));
  });
}

function leavesSlot(slot: Slot | undefined, { meta, building }: Received): boolean {
  return slot !== undefined && !isSameSlot(slot, meta.slot) && !isSameSlot(slot, building?.slot);
}

/** What is to be written into slots, in order. */
class Rows {
  readonly batch: (StoreWrite | StoreRows)[] = [];
  bytes = 0;

  add(holding: Holding, slot: Slot, commits: readonly Uint8Array[], entries: readonly StateEntry[] = []): void {
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
  { generation }: CopyDesk,
  { meta, building }: Holding,
  refusal: ReplicationRefusal | undefined,
): ReplicaStatus {
  return {
    kind: 'copyStanding',
    generation,
    highestFence: meta.seen,
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
