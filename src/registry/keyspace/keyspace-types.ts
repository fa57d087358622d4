/**
 * Limits and snapshots of the key space. The limits are part of the replicated state machine: all replicas must have the
 * same, so only tests set others.
 */
import type { LeaseId, RegistryEntry } from '../../base/registry.ts';
import type { ChangeHistoryLimits, RevisionChanges } from './change-history.ts';

export type KeyspaceLimits = ChangeHistoryLimits & {
  /** Keys, values, and `entryBytes` per entry. */
  readonly totalBytesMax: number;
  readonly leasesMax: number;
  /** Keys that one transaction or the end of one lease may change: a watcher gets them in one message. */
  readonly changesMax: number;
  /** Bytes of one reply: a range that would exceed it ends early, with `more`. */
  readonly replyBytesMax: number;
};

export const keyspaceLimits: KeyspaceLimits = {
  totalBytesMax: 104_857_600,
  leasesMax: 100_000,
  changesMax: 8_192,
  replyBytesMax: 3_145_728,
  historyChangesMax: 100_000,
  historyBytesMax: 16_777_216,
};

export type GrantedLease = { readonly lease: LeaseId; readonly ttlMs: number };

/** A whole key space, for snapshots and backups. Later changes of the key space do not affect it. */
export type KeyspaceSnapshot = KeyspaceNumbers & KeyspaceItems;

export type KeyspaceNumbers = {
  /** With `restores` the epoch. */
  readonly groupId: string;
  readonly restores: number;
  readonly revision: number;
  readonly lastLease: number;
};

/** Each list is in order and can be iterated once. */
export type KeyspaceItems = {
  readonly leases: readonly GrantedLease[];
  readonly entries: Iterable<RegistryEntry>;
  readonly history: Iterable<RevisionChanges>;
};
