/**
 * The Registry and Leadership ports: an ordered key space with revisions, transactions, leases and resumable watches.
 * States what each error promises about a write.
 *
 * Each successful transaction that changes something raises the revision by one, and all its changes carry that
 * revision. Results are callbacks as in ports.ts: called exactly once, never before the call has returned, and always
 * within `timeoutMs`. A write that ended in DEADLINE or NETWORK_TIMEOUT may have happened; one that ended in NO_QUORUM,
 * NOT_LEADER or CAPACITY has not.
 */
import type { Done } from './errors.ts';
import type { Fence } from './fence.ts';
import type { NodeId } from './ids.ts';
import type { Cancel } from './ports.ts';

declare const leaseIdBrand: unique symbol;
/**
 * A number, with the epoch of its grant in front unless the registry is etcd: never granted twice, even by a new group.
 */
export type LeaseId = string & { readonly [leaseIdBrand]: true };

declare const epochBrand: unique symbol;
/**
 * Which history of the data this is: `<group id>.<number of restores>`. Revisions, lease ids and fences are comparable
 * within one epoch only: a restored registry goes back, and one of a new group starts again.
 */
export type RegistryEpoch = string & { readonly [epochBrand]: true };

export type RegistryEntry = {
  readonly key: string;
  readonly value: Uint8Array;
  /** Revisions of its creation and last change; `version` counts the writes since its creation (1 = new). */
  readonly createRevision: number;
  readonly modRevision: number;
  readonly version: number;
  /** The key is deleted when this lease ends. */
  readonly lease: LeaseId | undefined;
};

/** A key that does not exist has version, createRevision and modRevision 0, and no value that anything equals. */
export type RegistryCompare =
  | {
      readonly key: string;
      readonly target: 'version' | 'createRevision' | 'modRevision';
      readonly is: 'equal' | 'less' | 'greater' | 'notEqual';
      readonly than: number;
    }
  | { readonly key: string; readonly target: 'value'; readonly is: 'equal' | 'notEqual'; readonly than: Uint8Array };

/** Keys with `from <= key < to`, in the order of their UTF-8 bytes. */
export type KeyRange = { readonly from: string; readonly to: string };

export type RegistryOp =
  /**
   * With an unknown lease the transaction fails with LEASE_EXPIRED. Without a lease the key is detached from a former
   * one.
   */
  | { readonly kind: 'put'; readonly key: string; readonly value: Uint8Array; readonly lease?: LeaseId }
  | { readonly kind: 'delete'; readonly range: KeyRange }
  | { readonly kind: 'read'; readonly range: KeyRange; readonly limit: number };

/** If all comparisons hold then `then`, else `otherwise`. No key may be written twice in one branch. */
export type RegistryTransaction = {
  readonly compare: readonly RegistryCompare[];
  readonly then: readonly RegistryOp[];
  readonly otherwise: readonly RegistryOp[];
};

export type RegistryOpResult =
  | { readonly kind: 'put' }
  | { readonly kind: 'delete'; readonly deleted: number }
  | { readonly kind: 'read'; readonly entries: readonly RegistryEntry[]; readonly more: boolean };

export type TransactionResult = {
  readonly succeeded: boolean;
  readonly epoch: RegistryEpoch;
  /** After this transaction. */
  readonly revision: number;
  readonly results: readonly RegistryOpResult[];
};

export type RangeResult = {
  /** What `revision` belongs to. */
  readonly epoch: RegistryEpoch;
  readonly entries: readonly RegistryEntry[];
  /** More keys follow beyond the limit. */
  readonly more: boolean;
  /** The revision of the read: a watch from `revision + 1` misses nothing. */
  readonly revision: number;
};

export type RangeOptions = {
  readonly limit?: number;
  readonly timeoutMs?: number;
  /** A stale read from this node or its nearest manager, without a majority. Otherwise reads are linearizable. */
  readonly stale?: boolean;
};

export type RegistryChange =
  | { readonly kind: 'put'; readonly entry: RegistryEntry }
  | { readonly kind: 'delete'; readonly key: string; readonly modRevision: number };

/**
 * With the epoch in which the revision was read. After a restore, or with a registry of another group, the watch ends
 * as compacted: a revision means nothing there. Without an epoch the revision is taken as one of the present epoch.
 */
export type WatchStart = { readonly revision: number; readonly epoch?: RegistryEpoch | undefined };

export type WatchEvents = {
  /** Changes in order; all changes of one revision come together. */
  changed(changes: readonly RegistryChange[], revision: number): void;
  /** The watch ended because history before `oldestRevision` was compacted: read again and watch from there. */
  compacted(oldestRevision: number): void;
};

export type WriteOptions = { readonly timeoutMs?: number };

export type Registry = {
  range(range: KeyRange, options: RangeOptions, done: Done<RangeResult>): void;
  /** Retries until it has a result or `timeoutMs` is over; executes once. */
  transact(transaction: RegistryTransaction, options: WriteOptions, done: Done<TransactionResult>): void;
  grant(ttlMs: number, options: WriteOptions, done: Done<{ readonly lease: LeaseId; readonly ttlMs: number }>): void;
  /** Renews the lease for its full time. LEASE_EXPIRED when there is no such lease. */
  keepAlive(lease: LeaseId, options: WriteOptions, done: Done<{ readonly ttlMs: number }>): void;
  /** Deletes the keys of the lease. Idempotent. */
  revoke(lease: LeaseId, options: WriteOptions, done: Done<void>): void;
  /** From that revision, inclusive. Survives the loss of its server; ends by `Cancel` or by compaction. */
  watch(range: KeyRange, from: WatchStart, events: WatchEvents): Cancel;
};

export type LeadershipView = {
  /** As far as this node knows; undefined without a leader. */
  readonly leader: NodeId | undefined;
  readonly term: number;
  /** Of the current leader; undefined without a leader. */
  readonly fence: Fence | undefined;
};

/** The leader of the group that this node belongs to, and whether that is this node. */
export type Leadership = {
  view(): LeadershipView;
  /** True only while the leader lease of this node holds: check right before acting, and act under `view().fence`. */
  isLeading(): boolean;
  watch(events: LeadershipEvents): Cancel;
};

export type LeadershipEvents = {
  elected?(fence: Fence): void;
  lost?(reason: string): void;
  changed?(view: LeadershipView): void;
};

export const registryLimits = {
  keyBytesMax: 1_024,
  valueBytesMax: 1_048_576,
  transactionBytesMax: 1_572_864,
  /** Comparisons, and operations per branch. etcd allows 128, which include those that this package adds. */
  transactionOpsMax: 120,
  rangeLimitMax: 10_000,
  ttlMsMin: 1_000,
  ttlMsMax: 86_400_000,
} as const;

export function onlyKey(key: string): KeyRange {
  return { from: key, to: `${key}\0` };
}

/** All keys with this prefix. */
export function withPrefix(prefix: string): KeyRange {
  return { from: prefix, to: `${prefix}\u{10ffff}` };
}
