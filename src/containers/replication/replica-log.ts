/**
 * Pure decisions of a replica: it refuses lower fences, accepts commits only where its log ends, and does each step of
 * a snapshot once. Writes nothing.
 */
import type { Fence } from '../../base/fence.ts';
import type { ReplicationRefusal, ReplicateCommits, ReplicateSnapshot } from '../../messages/replication.ts';
import { type ReplicaMeta, type CommitPosition, type StateSlot, isLaterSlot } from './replica-layout.ts';

/** A snapshot that is being received. Known in memory only: after a crash its slot is garbage. */
export type SnapshotInstall = { readonly slot: StateSlot; readonly step: number };

export type ReplicaDecision = {
  /** The slot for the rows of the request; undefined when none of them is written. */
  readonly slot: StateSlot | undefined;
  /** How many commits of the request are skipped because the replica has them. */
  readonly skip: number;
  readonly meta: ReplicaMeta;
  readonly install: SnapshotInstall | undefined;
  readonly refusal: ReplicationRefusal | undefined;
};

export function acceptCommits(
  meta: ReplicaMeta,
  install: SnapshotInstall | undefined,
  request: ReplicateCommits,
): ReplicaDecision {
  const maxFence = request.fence as Fence;
  if (maxFence < meta.maxFence) return unchanged(meta, install, 'fenced');
  const known = { ...meta, maxFence };
  const { slot, position } = meta;
  const { after, commits } = request;
  if (slot === undefined) return unchanged(known, install, 'mismatch');
  const last = after.seq + commits.length;
  if (!isContinued(position, request)) return unchanged(known, install, 'mismatch');
  // The replica has all of it: its reply was lost, and the owner has sent the commits again.
  if (last <= position.seq) return unchanged(known, install, undefined);
  const next = { ...known, position: { fence: maxFence, seq: last } };
  // An owner that sends commits again has abandoned the snapshot.
  return { slot, skip: position.seq - after.seq, meta: next, install: undefined, refusal: undefined };
}

/**
 * The replica ends where the request starts, or within it under the same fence: equal fence and number, equal commit.
 */
function isContinued(position: CommitPosition, { after, commits, fence }: ReplicateCommits): boolean {
  if (position.seq === after.seq && position.fence === after.fence) return true;
  return position.fence === fence && position.seq > after.seq && position.seq <= after.seq + commits.length;
}

export function acceptSnapshotStep(
  meta: ReplicaMeta,
  install: SnapshotInstall | undefined,
  request: ReplicateSnapshot,
): ReplicaDecision {
  const maxFence = request.fence as Fence;
  if (maxFence < meta.maxFence) return unchanged(meta, install, 'fenced');
  const known = { ...meta, maxFence };
  const slot = { fence: maxFence, snapshot: request.snapshot };
  const isInstalling = install?.slot.fence === maxFence && install.slot.snapshot === request.snapshot;
  if (isInstalling && request.step <= install.step) return unchanged(known, install, undefined);
  const isNext = isInstalling ? request.step === install.step + 1 : request.step === 0;
  // A delayed step of an installed snapshot must not overwrite the state that it has become.
  const isLate = !isLaterSlot(slot, meta.slot) || (!isInstalling && !isLaterSlot(slot, install?.slot));
  const { install: end } = request;
  // Nor may it remove commits of the same owner.
  const isRegression = end !== undefined && meta.position.fence === maxFence && end.seq < meta.position.seq;
  if (!isNext || isLate || isRegression) return unchanged(known, install, 'mismatch');
  if (end === undefined) {
    return { slot, skip: 0, meta: known, install: { slot, step: request.step }, refusal: undefined };
  }
  const position = { fence: end.fence as Fence, seq: end.seq };
  return { slot, skip: 0, meta: { slot, position, maxFence }, install: undefined, refusal: undefined };
}

function unchanged(
  meta: ReplicaMeta,
  install: SnapshotInstall | undefined,
  refusal: ReplicationRefusal | undefined,
): ReplicaDecision {
  return { slot: undefined, skip: 0, meta, install, refusal };
}
