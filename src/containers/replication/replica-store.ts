/**
 * What this node stores of one container: the meta row, and a snapshot that is being received. One operation runs at a
 * time; state and meta row are written together.
 */
import type { Done, RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Store, StoreRows, StoreWrite } from '../../base/ports.ts';
import type { ReplicaStatus, ReplicateCommits } from '../../messages/replication.ts';
import type { GroupCommit } from './group-commit.ts';
import {
  type ReplicaMeta,
  replicaMetaKey,
  replicaMetaWrite,
  emptyMeta,
  readReplicaMeta,
  slotPrefix,
} from './replica-layout.ts';
import type { SnapshotInstall } from './replica-log.ts';

/** Where state is stored: on disk, or in memory for pools with durability `memory`. */
export type ReplicaStorage = { readonly store: Pick<Store, 'read'>; readonly groupCommit: GroupCommit };

/** `error`: the meta row could not be read this time. `release` starts the next operation. */
type ExclusiveOperation = (release: () => void, error: RemusterError | undefined) => void;

export type PendingAppend = { readonly request: ReplicateCommits; readonly reply: Done<ReplicaStatus> };

const queuedMax = 64;
const metaRowBytes = 100;

export class ReplicaStore {
  readonly pool: number;
  readonly container: number;
  readonly storage: ReplicaStorage;
  #meta: ReplicaMeta | undefined;
  install: SnapshotInstall | undefined;
  /** Requests of the owner that wait for the next exclusive operation. */
  readonly appends: PendingAppend[] = [];
  /** The meta row is damaged: the state is lost, and only a snapshot repairs it. */
  isCorrupt = false;
  /** Removed from the catalog: another instance may own the same rows, so this one must not touch them. */
  isErased = false;
  /** Fence of an owner that was lost here: no owner may start again under the same fence. */
  usedFence: Fence | undefined;
  /**
   * Revision of the newest record under which an owner has sent requests to this process; older records are ignored.
   */
  namedRevision = 0;
  readonly #queue: ExclusiveOperation[] = [];
  #isBusy = false;

  constructor(pool: number, container: number, storage: ReplicaStorage) {
    this.pool = pool;
    this.container = container;
    this.storage = storage;
  }

  /** As stored; empty before the first exclusive operation has read it. */
  get meta(): ReplicaMeta {
    return this.#meta ?? emptyMeta;
  }

  /** No operation and no append waits behind the running one. */
  get isQueueEmpty(): boolean {
    return this.#queue.length === 0 && this.appends.length === 0;
  }

  /** Runs the operation when all earlier ones have released. False: the queue is full. */
  runExclusive(run: ExclusiveOperation): boolean {
    if (this.#queue.length >= queuedMax) return false;
    this.#queue.push(run);
    if (!this.#isBusy) this.#next();
    return true;
  }

  /** Only inside an exclusive operation. Atomic; the meta row is added to the batch. */
  write(batch: (StoreWrite | StoreRows)[], bytes: number, meta: ReplicaMeta, done: Done<void>): void {
    batch.push(replicaMetaWrite(this.pool, this.container, meta));
    this.storage.groupCommit.write(batch, bytes + metaRowBytes, (outcome) => {
      if (outcome.ok) {
        this.#meta = meta;
        this.isCorrupt = false;
      }
      done(outcome);
    });
  }

  /** Only inside an exclusive operation: deletes the meta row. */
  erase(done: Done<void>): void {
    const row = { key: replicaMetaKey(this.pool, this.container), value: null };
    this.storage.groupCommit.write([row], metaRowBytes, (outcome) => {
      if (outcome.ok) this.#meta = emptyMeta;
      done(outcome);
    });
  }

  /** The rows with this prefix belong to the valid slot, or to the snapshot that is being received. */
  isNeeded(prefix: string): boolean {
    for (const slot of [this.meta.slot, this.install?.slot]) {
      if (slot !== undefined && slotPrefix(this.pool, this.container, slot) === prefix) return true;
    }
    return false;
  }

  #next(): void {
    const run = this.#queue.shift();
    if (run === undefined) return;
    this.#isBusy = true;
    if (this.#meta === undefined) this.#load((error) => run(this.#release, error));
    else run(this.#release, undefined);
  }

  readonly #release = (): void => {
    this.#isBusy = false;
    this.#next();
  };

  /** After an error that is not damage, the next operation reads the meta row again. */
  #load(then: (error: RemusterError | undefined) => void): void {
    const key = replicaMetaKey(this.pool, this.container);
    this.storage.store.read({ from: key, to: `${key}\0`, limit: 1 }, (outcome) => {
      if (!outcome.ok && outcome.error.code !== 'STORE_CORRUPT') return then(outcome.error);
      const value = outcome.ok ? outcome.value[0]?.value : undefined;
      const meta = value === undefined ? undefined : readReplicaMeta(value);
      this.isCorrupt = !outcome.ok || (value !== undefined && meta === undefined);
      this.#meta = meta ?? emptyMeta;
      then(undefined);
    });
  }
}
