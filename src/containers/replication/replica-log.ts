/**
 * Pure decisions of a replica: refuse lower fences, accept commits only where its log ends, do each snapshot step once.
 * Always says where it stands.
 */
import type { Fence } from '../../base/fence.ts';
import type { ReplicationRefusal, ReplicateCommits, ReplicateSnapshot } from '../../messages/replication.ts';
import { type ReplicaMeta, type CommitPosition, type StateSlot, isLaterSlot } from './replica-layout.ts';

/** A new copy that does not count yet. Only in memory: after a crash its slot is garbage. */
export type SnapshotInstall = { readonly slot: StateSlot; readonly step: number };

export type ReplicaDecision = {
  /** Where the commits of the request go; undefined when nothing of it is written. */
  readonly slot: StateSlot | undefined;
  /** How many commits of the request are skipped, because they are here already. */
  readonly skip: number;
  readonly meta: ReplicaMeta;
  readonly building: SnapshotInstall | undefined;
  readonly refusal: ReplicationRefusal | undefined;
};

export function acceptCommits(
  meta: ReplicaMeta,
  building: SnapshotInstall | undefined,
  request: ReplicateCommits,
): ReplicaDecision {
  const maxFence = request.fence as Fence;
  if (maxFence < meta.maxFence) return nothing(meta, building, 'fenced');
  const known = { ...meta, maxFence };
  const { slot, position } = meta;
  const { after, commits } = request;
  if (slot === undefined) return nothing(known, building, 'mismatch');
  const last = after.seq + commits.length;
  if (!isContinued(position, request)) return nothing(known, building, 'mismatch');
  // All of it is here: the answer was lost.
  if (last <= position.seq) return nothing(known, building, undefined);
  const next = { ...known, position: { fence: maxFence, seq: last } };
  // An owner that appends again has given up the snapshot.
  return { slot, skip: position.seq - after.seq, meta: next, building: undefined, refusal: undefined };
}

/** We end where it begins, or within it: then our last commit is of the same owner, and so the same commit. */
function isContinued(position: CommitPosition, { after, commits, fence }: ReplicateCommits): boolean {
  if (position.seq === after.seq && position.fence === after.fence) return true;
  return position.fence === fence && position.seq > after.seq && position.seq <= after.seq + commits.length;
}

export function acceptSnapshotStep(
  meta: ReplicaMeta,
  building: SnapshotInstall | undefined,
  request: ReplicateSnapshot,
): ReplicaDecision {
  const maxFence = request.fence as Fence;
  if (maxFence < meta.maxFence) return nothing(meta, building, 'fenced');
  const known = { ...meta, maxFence };
  const slot = { fence: maxFence, snapshot: request.snapshot };
  const isBuilding = building?.slot.fence === maxFence && building.slot.snapshot === request.snapshot;
  if (isBuilding && request.step <= building.step) return nothing(known, building, undefined);
  const isNext = isBuilding ? request.step === building.step + 1 : request.step === 0;
  // A late word of a snapshot that is over must not be written over the copy that came of it.
  const isLate = !isLaterSlot(slot, meta.slot) || (!isBuilding && !isLaterSlot(slot, building?.slot));
  const { install } = request;
  // Neither may it take back commits of the same owner.
  const isBack = install !== undefined && meta.position.fence === maxFence && install.seq < meta.position.seq;
  if (!isNext || isLate || isBack) return nothing(known, building, 'mismatch');
  if (install === undefined) {
    return { slot, skip: 0, meta: known, building: { slot, step: request.step }, refusal: undefined };
  }
  const position = { fence: install.fence as Fence, seq: install.seq };
  return { slot, skip: 0, meta: { slot, position, maxFence }, building: undefined, refusal: undefined };
}

function nothing(
  meta: ReplicaMeta,
  building: SnapshotInstall | undefined,
  refusal: ReplicationRefusal | undefined,
): ReplicaDecision {
  return { slot: undefined, skip: 0, meta, building, refusal };
}
