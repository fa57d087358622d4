/**
 * What a copy does with what an owner sends: pure decisions over its meta row and the snapshot that is being built. It
 * refuses lower fences than it has seen, takes commits only where its own end, does each step of a snapshot once, and
 * says in every case where it stands. copy-desk.ts writes what is decided here before it answers.
 */
import type { Fence } from '../../base/fence.ts';
import type { ReplicationRefusal, ReplicateCommits, ReplicateSnapshot } from '../../messages/replication.ts';
import { type Meta, type Position, type Slot, isLaterSlot } from './layout.ts';

/** A new copy that does not count yet. Only in memory: after a crash its slot is garbage. */
export type Building = { readonly slot: Slot; readonly step: number };

export type Received = {
  /** Where the commits of the request go; undefined when nothing of it is written. */
  readonly slot: Slot | undefined;
  /** How many commits of the request are skipped, because they are here already. */
  readonly skip: number;
  readonly meta: Meta;
  readonly building: Building | undefined;
  readonly refusal: ReplicationRefusal | undefined;
};

export function receiveCommits(meta: Meta, building: Building | undefined, request: ReplicateCommits): Received {
  const seen = request.fence as Fence;
  if (seen < meta.seen) return nothing(meta, building, 'fenced');
  const known = { ...meta, seen };
  const { slot, position } = meta;
  const { after, commits } = request;
  if (slot === undefined) return nothing(known, building, 'mismatch');
  const last = after.seq + commits.length;
  if (!isContinued(position, request)) return nothing(known, building, 'mismatch');
  // All of it is here: the answer was lost.
  if (last <= position.seq) return nothing(known, building, undefined);
  const next = { ...known, position: { fence: seen, seq: last } };
  // An owner that appends again has given up the snapshot.
  return { slot, skip: position.seq - after.seq, meta: next, building: undefined, refusal: undefined };
}

/** We end where it begins, or within it: then our last commit is of the same owner, and so the same commit. */
function isContinued(position: Position, { after, commits, fence }: ReplicateCommits): boolean {
  if (position.seq === after.seq && position.fence === after.fence) return true;
  return position.fence === fence && position.seq > after.seq && position.seq <= after.seq + commits.length;
}

export function receiveSnapshot(meta: Meta, building: Building | undefined, request: ReplicateSnapshot): Received {
  const seen = request.fence as Fence;
  if (seen < meta.seen) return nothing(meta, building, 'fenced');
  const known = { ...meta, seen };
  const slot = { fence: seen, snapshot: request.snapshot };
  const isBuilding = building?.slot.fence === seen && building.slot.snapshot === request.snapshot;
  if (isBuilding && request.step <= building.step) return nothing(known, building, undefined);
  const isNext = isBuilding ? request.step === building.step + 1 : request.step === 0;
  // A late word of a snapshot that is over must not be written over the copy that came of it.
  const isLate = !isLaterSlot(slot, meta.slot) || (!isBuilding && !isLaterSlot(slot, building?.slot));
  const { install } = request;
  // Neither may it take back commits of the same owner.
  const isBack = install !== undefined && meta.position.fence === seen && install.seq < meta.position.seq;
  if (!isNext || isLate || isBack) return nothing(known, building, 'mismatch');
  if (install === undefined) {
    return { slot, skip: 0, meta: known, building: { slot, step: request.step }, refusal: undefined };
  }
  const position = { fence: install.fence as Fence, seq: install.seq };
  return { slot, skip: 0, meta: { slot, position, seen }, building: undefined, refusal: undefined };
}

function nothing(meta: Meta, building: Building | undefined, refusal: ReplicationRefusal | undefined): Received {
  return { slot: undefined, skip: 0, meta, building, refusal };
}
