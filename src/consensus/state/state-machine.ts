/**
 * The state machine on top of the log, and the handle by which a node proposes, reads and changes the group. Knows
 * nothing of the consensus protocol.
 */
import type { Done } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';
import type { Leadership } from '../../base/registry.ts';

export type AppliedEntry = { readonly index: number; readonly term: number; readonly command: Uint8Array };

/** Deterministic: the same entries give the same state and results on every node of a group. */
export type StateMachine<Result> = {
  /** Never throws for bytes that a proposer could send: an invalid command has a result that reports it. */
  apply(entry: AppliedEntry): Result;
  /**
   * The state after the last applied entry, as of the call. Its parts are produced one by one while further entries are
   * applied. Neither the call nor a part may take long, because they block the loop. A returned part is immutable.
   */
  snapshot(): Iterable<Uint8Array>;
  /** Starts to restore the parts of a snapshot. */
  beginRestore(): SnapshotRestore;
};

export type SnapshotRestore = {
  /** Parts in order, of any size; none may take long. The current state stays until `finish`. */
  add(part: Uint8Array): void;
  /** Replaces the current state. Not called if the restore is cancelled. */
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
  /** The role of this node in the group; `outside` if it is not a member. */
  readonly self: 'leader' | 'follower' | 'candidate' | 'syncing' | 'outside';
};

export type CommittedResult<Result> = { readonly index: number; readonly fence: Fence; readonly result: Result };

export type GroupHandle<Result> = {
  readonly leadership: Leadership;
  view(): GroupView;
  /**
   * Ends when the entry is applied on this node. NOT_LEADER, NO_QUORUM and CAPACITY promise that it never will be; after
   * DEADLINE and a lost leadership (NETWORK_TIMEOUT) it still may be.
   */
  propose(command: Uint8Array, timeoutMs: number, done: Done<CommittedResult<Result>>): void;
  /** Ends when this leader has applied every entry committed before the call: its state is linearizable then. */
  readBarrier(timeoutMs: number, done: Done<void>): void;
  /** One configuration change at a time; a second one ends with CAPACITY. */
  change(change: GroupChange, timeoutMs: number, done: Done<void>): void;
  /** Transfers leadership to that voter, or to the best one. Ends when another voter leads, or in an error. */
  transfer(to: NodeId | undefined, timeoutMs: number, done: Done<void>): void;
};

export type GroupChange =
  | { readonly kind: 'add'; readonly member: Omit<GroupMember, 'standing'> }
  | { readonly kind: 'promote'; readonly id: NodeId }
  | { readonly kind: 'remove'; readonly id: NodeId };
