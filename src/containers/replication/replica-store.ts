/**
 * What this node stores of one container: meta row and snapshot under construction. One operation at a time; state and
 * meta are written together.
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

/** Where state lies: the disk, or the memory of this process for pools that want it so. */
export type ReplicaStorage = { readonly store: Pick<Store, 'read'>; readonly journal: GroupCommit };

/** `error`: the meta row could not be read this time. `over` is called when the next one may have its turn. */
type Turn = (over: () => void, error: RemusterError | undefined) => void;

export type PendingAppend = { readonly request: ReplicateCommits; readonly reply: Done<ReplicaStatus> };

const turnsMax = 64;
const metaRowBytes = 100;

export class ReplicaStore {
  readonly pool: number;
  readonly container: number;
  readonly shelf: ReplicaStorage;
  #meta: ReplicaMeta | undefined;
  install: SnapshotInstall | undefined;
  /** What an owner has sent and waits for the next turn. */
  readonly appends: PendingAppend[] = [];
  /** The meta row is damaged: what was here is lost, and only a snapshot helps. */
  isCorrupt = false;
  /** Nobody finds it any more: another one may stand for the same rows, so through this one none of them is touched. */
  isErased = false;
  /** Under which an owner has ended here in a way that forbids to begin again under the same. */
  usedFence: Fence | undefined;
  /** Of the latest record by which an owner has counted on us, in this life: older ones say nothing. */
  namedRevision = 0;
  readonly #turns: Turn[] = [];
  #isBusy = false;

  constructor(pool: number, container: number, shelf: ReplicaStorage) {
    this.pool = pool;
    this.container = container;
    this.shelf = shelf;
  }

  /** As it is on the disk; nothing before the first turn. */
  get meta(): ReplicaMeta {
    return this.#meta ?? emptyMeta;
  }

  /** In a turn: nobody waits for the next one. */
  get isLast(): boolean {
    return this.#turns.length === 0 && this.appends.length === 0;
  }

  /** False: too many wait already. */
  runExclusive(run: Turn): boolean {
    if (this.#turns.length >= turnsMax) return false;
    this.#turns.push(run);
    if (!this.#isBusy) this.#next();
    return true;
  }

  /** In a turn: all of it or nothing. The meta row is added to the batch. */
  write(batch: (StoreWrite | StoreRows)[], bytes: number, meta: ReplicaMeta, done: Done<void>): void {
    batch.push(replicaMetaWrite(this.pool, this.container, meta));
    this.shelf.journal.write(batch, bytes + metaRowBytes, (outcome) => {
      if (outcome.ok) {
        this.#meta = meta;
        this.isCorrupt = false;
      }
      done(outcome);
    });
  }

  /** In a turn: nothing of it is known any more. */
  erase(done: Done<void>): void {
    const row = { key: replicaMetaKey(this.pool, this.container), value: null };
    this.shelf.journal.write([row], metaRowBytes, (outcome) => {
      if (outcome.ok) this.#meta = emptyMeta;
      done(outcome);
    });
  }

  /** The rows behind this prefix belong to the state, or to the one that is being built. */
  isNeeded(prefix: string): boolean {
    for (const slot of [this.meta.slot, this.install?.slot]) {
      if (slot !== undefined && slotPrefix(this.pool, this.container, slot) === prefix) return true;
    }
    return false;
  }

  #next(): void {
    const run = this.#turns.shift();
    if (run === undefined) return;
    this.#isBusy = true;
    if (this.#meta === undefined) this.#load((error) => run(this.#over, error));
    else run(this.#over, undefined);
  }

  readonly #over = (): void => {
    this.#isBusy = false;
    this.#next();
  };

  /** An error that is not damage leaves the row unknown: whoever is next tries again. */
  #load(then: (error: RemusterError | undefined) => void): void {
    const key = replicaMetaKey(this.pool, this.container);
    this.shelf.store.read({ from: key, to: `${key}\0`, limit: 1 }, (outcome) => {
      if (!outcome.ok && outcome.error.code !== 'STORE_CORRUPT') return then(outcome.error);
      const value = outcome.ok ? outcome.value[0]?.value : undefined;
      const meta = value === undefined ? undefined : readReplicaMeta(value);
      this.isCorrupt = !outcome.ok || (value !== undefined && meta === undefined);
      this.#meta = meta ?? emptyMeta;
      then(undefined);
    });
  }
}
