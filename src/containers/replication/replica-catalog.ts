/**
 * All replicas on this node. A replica is dropped only by a record that does not name this node, by the deletion of its
 * container, or by a confirmed address table; never because it is unknown.
 *
 *   drop: write an empty meta row -> delete the rows of all slots -> delete the meta row, if the container is deleted
 *
 * While the container lives elsewhere, the meta row stays: it has the highest fence seen here.
 */
import type { RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Clock, StoreEntry } from '../../base/ports.ts';
import { ReplicaStore, type ReplicaStorage } from './replica-store.ts';
import { type ReplicaMeta, allReplicaMetas, emptyMeta, parseReplicaMetaKey } from './replica-layout.ts';
import { SlotGarbageCollector } from './slot-gc.ts';

export type ReplicaCatalogPorts = {
  readonly clock: Clock;
  readonly disk: ReplicaStorage;
  readonly memory: ReplicaStorage;
  readonly replicasMax: number;
  /** The last known record of the container names this node. */
  readonly isNamed: (key: string) => boolean;
  readonly dropped: (replica: ReplicaStore) => void;
};

const pageRows = 500;
const dropRetryMs = 1_000;

export function replicaKey(pool: number, container: number): string {
  return `${pool}/${container}`;
}

export class ReplicaCatalog {
  readonly #ports: ReplicaCatalogPorts;
  readonly #replicas = new Map<string, ReplicaStore>();
  readonly #slotGc: SlotGarbageCollector;

  constructor(ports: ReplicaCatalogPorts) {
    this.#ports = ports;
    this.#slotGc = new SlotGarbageCollector(ports.clock);
  }

  get size(): number {
    return this.#replicas.size;
  }

  get sweeping(): number {
    return this.#slotGc.waiting;
  }

  /** Creates the replica if needed; undefined when there are too many. */
  get(pool: number, container: number, isMemory: boolean): ReplicaStore | undefined {
    const key = replicaKey(pool, container);
    const known = this.#replicas.get(key);
    if (known !== undefined || this.#replicas.size >= this.#ports.replicasMax) return known;
    const replica = new ReplicaStore(pool, container, isMemory ? this.#ports.memory : this.#ports.disk);
    this.#replicas.set(key, replica);
    return replica;
  }

  /** Deletes slots that a crash or a snapshot left behind. */
  collectSlots(replica: ReplicaStore): void {
    this.#slotGc.collect(replica);
  }

  /** An owner has sent requests under a later record than this revision. */
  isNamedAfter(pool: number, container: number, revision: number): boolean {
    return revision < (this.#replicas.get(replicaKey(pool, container))?.namedRevision ?? 0);
  }

  /** Fence and revision of the record that does not name this node; no fence when the container is deleted. */
  drop(key: string, fence: Fence | undefined, revision: number): void {
    const replica = this.#replicas.get(key);
    if (replica === undefined) return;
    replica.runExclusive((release, error) => {
      // Meanwhile a later record may name this node: a request of the owner can arrive before the record does.
      if (this.#ports.isNamed(key) || replica.namedRevision > revision) return release();
      if (error !== undefined) {
        release();
        return this.#dropLater(key, fence, revision);
      }
      replica.install = undefined;
      const maxFence = fence === undefined || replica.meta.maxFence > fence ? replica.meta.maxFence : fence;
      const nothing: ReplicaMeta = { ...emptyMeta, maxFence };
      replica.write([], 0, nothing, (outcome) => {
        release();
        if (outcome.ok) this.#slotGc.collect(replica, () => this.#onSlotsCollected(replica, key, fence === undefined));
        else this.#dropLater(key, fence, revision);
      });
    });
  }

  #dropLater(key: string, fence: Fence | undefined, revision: number): void {
    this.#ports.clock.schedule(dropRetryMs, () => this.drop(key, fence, revision));
  }

  #onSlotsCollected(replica: ReplicaStore, key: string, isDeleted: boolean): void {
    replica.runExclusive((release) => {
      const isInUse = replica.meta.slot !== undefined || replica.install !== undefined;
      if (isInUse || this.#ports.isNamed(key) || this.#replicas.get(key) !== replica) return release();
      const end = (): void => {
        // A queued operation would not know of a new instance with the same rows.
        if (replica.isQueueEmpty) {
          this.#replicas.delete(key);
          replica.isErased = true;
        }
        release();
        this.#ports.dropped(replica);
      };
      if (isDeleted) replica.erase(end);
      else end();
    });
  }

  /** Drops replicas of earlier generations that no record assigns to this node. Ends with the error that stopped it. */
  reconcile(
    classify: (pool: number, container: number) => 'keep' | 'drop',
    done: (error: RemusterError | undefined) => void,
  ): void {
    const readPage = (from: string): void => {
      this.#ports.disk.store.read({ from, to: allReplicaMetas.to, limit: pageRows }, (outcome) => {
        if (!outcome.ok) return done(outcome.error);
        const rows = outcome.value;
        for (const row of rows) this.#reconcileRow(row, classify);
        if (rows.length < pageRows) done(undefined);
        else readPage(`${rows.at(-1)?.key}\0`);
      });
    };
    readPage(allReplicaMetas.from);
  }

  #reconcileRow({ key: row }: StoreEntry, classify: (pool: number, container: number) => 'keep' | 'drop'): void {
    const name = parseReplicaMetaKey(row);
    if (name === undefined) return;
    const { pool, container } = name;
    const key = replicaKey(pool, container);
    const replica = this.get(pool, container, false);
    if (replica === undefined) return;
    const isNamed = this.#ports.isNamed(key) || replica.namedRevision > 0;
    if (isNamed || classify(pool, container) === 'keep') this.#slotGc.collect(replica);
    else this.drop(key, undefined, 0);
  }
}
