/**
 * The state machine on top of the log, and the handle by which a node proposes, reads and changes the group. Knows
 * nothing of how agreement is reached.
 */
import type { Done } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import type { Leadership } from '../../base/registry.ts';

export type AppliedEntry = { readonly index: number; readonly term: number; readonly command: Uint8Array };

/** Deterministic: same entries, same state, same results, on every machine and in every version that may meet. */
export type StateMachine<Result> = {
  /** Never throws for bytes that a proposer could send: a bad command has a result that says so. */
  apply(entry: AppliedEntry): Result;
  /**
   * The state as it is after the last applied entry. It is fixed by the call; its bytes are made part by part as they
   * are asked for, while entries go on being applied. Neither the call nor a part may take long: others wait meanwhile.
   * A part is not changed once it was given out.
   */
  snapshot(): Iterable<Uint8Array>;
  /** Takes in what a snapshot gave out. */
  beginRestore(): SnapshotRestore;
};

export type SnapshotRestore = {
  /** In order, but cut anywhere; no part may take long. What the state is until now stays as it is. */
  add(part: Uint8Array): void;
  /** All is there, and takes the place of the state until now. Whoever gives up never calls it. */
  finish(): void;
};

/** `syncing` counts in no majority; it becomes a voter when it has caught up. */
export type GroupMember = Address & {
  readonly id: NodeId;
  readonly name: string;
  readonly standing: 'voter' | 'syncing';
};

export type GroupView = {
  readonly group: string;
  readonly members: readonly GroupMember[];
  readonly leader: NodeId | undefined;
  readonly term: number;
  readonly commitIndex: number;
  readonly appliedIndex: number;
  /** What this node is to the group; `outside` until it has been added. */
  readonly self: 'leader' | 'follower' | 'candidate' | 'syncing' | 'outside';
};

export type CommittedResult<Result> = { readonly index: number; readonly fence: Fence; readonly result: Result };

export type GroupHandle<Result> = {
  readonly leadership: Leadership;
  view(): GroupView;
  /**
   * Ends when the entry is applied here. NOT_LEADER, NO_QUORUM and CAPACITY promise that it will never be; DEADLINE and
   * a lost leadership (NETWORK_TIMEOUT) leave it open.
   */
  propose(command: Uint8Array, timeoutMs: number, done: Done<CommittedResult<Result>>): void;
  /** Ends when this leader has applied everything that was agreed anywhere before the call: then its state is the truth. */
  readBarrier(timeoutMs: number, done: Done<void>): void;
  /** One change at a time; a second one while the first is open ends with CAPACITY. */
  change(change: GroupChange, timeoutMs: number, done: Done<void>): void;
  /** Hands leadership to that voter, or to the best one. Ends when somebody else leads, or in an error while we still do. */
  transfer(to: NodeId | undefined, timeoutMs: number, done: Done<void>): void;
};

export type GroupChange =
  | { readonly kind: 'add'; readonly member: Omit<GroupMember, 'standing'> }
  | { readonly kind: 'promote'; readonly id: NodeId }
  | { readonly kind: 'remove'; readonly id: NodeId };
