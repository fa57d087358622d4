/**
 * All replicas on this node. Dropped only by a record without this node, a deleted container, or a confirmed table;
 * never because it is unknown.
 *
 *   drop: the meta row says "nothing" -> rows are swept -> the meta row goes too, if the container is gone
 *
 * While its container lives elsewhere the meta row stays, because it knows the highest fence that was here.
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
  readonly holdingsMax: number;
  /** The last record that we know names us. */
  readonly isOurs: (key: string) => boolean;
  readonly dropped: (holding: ReplicaStore) => void;
};

const pageRows = 500;
const dropRetryMs = 1_000;

export function replicaKey(pool: number, container: number): string {
  return `${pool}/${container}`;
}

export class ReplicaCatalog {
  readonly #ports: ReplicaCatalogPorts;
  readonly #holdings = new Map<string, ReplicaStore>();
  readonly #sweeper: SlotGarbageCollector;

  constructor(ports: ReplicaCatalogPorts) {
    this.#ports = ports;
    this.#sweeper = new SlotGarbageCollector(ports.clock);
  }

  get size(): number {
    return this.#holdings.size;
  }

  get sweeping(): number {
    return this.#sweeper.waiting;
  }

  /** Undefined when there are too many. */
  get(pool: number, container: number, isMemory: boolean): ReplicaStore | undefined {
    const key = replicaKey(pool, container);
    const known = this.#holdings.get(key);
    if (known !== undefined || this.#holdings.size >= this.#ports.holdingsMax) return known;
    const holding = new ReplicaStore(pool, container, isMemory ? this.#ports.memory : this.#ports.disk);
    this.#holdings.set(key, holding);
    return holding;
  }

  /** Deletes what a crash or a snapshot has left. */
  sweep(holding: ReplicaStore): void {
    this.#sweeper.collect(holding);
  }

  /** An owner has counted on us by a later record than this one. */
  isNamedAfter(pool: number, container: number, revision: number): boolean {
    return revision < (this.#holdings.get(replicaKey(pool, container))?.namedRevision ?? 0);
  }

  /** `fence` and revision of the record that does not name us; no fence when the container is gone. */
  drop(key: string, fence: Fence | undefined, revision: number): void {
    const holding = this.#holdings.get(key);
    if (holding === undefined) return;
    holding.runExclusive((over, error) => {
      // It may have taken a while: an owner may count on us by a later record, of which we have not heard yet.
      if (this.#ports.isOurs(key) || holding.namedRevision > revision) return over();
      if (error !== undefined) {
        over();
        return this.#dropLater(key, fence, revision);
      }
      holding.install = undefined;
      const maxFence = fence === undefined || holding.meta.maxFence > fence ? holding.meta.maxFence : fence;
      const nothing: ReplicaMeta = { ...emptyMeta, maxFence };
      holding.write([], 0, nothing, (outcome) => {
        over();
        if (outcome.ok) this.#sweeper.collect(holding, () => this.#swept(holding, key, fence === undefined));
        else this.#dropLater(key, fence, revision);
      });
    });
  }

  #dropLater(key: string, fence: Fence | undefined, revision: number): void {
    this.#ports.clock.schedule(dropRetryMs, () => this.drop(key, fence, revision));
  }

  #swept(holding: ReplicaStore, key: string, isGone: boolean): void {
    holding.runExclusive((over) => {
      const isHeld = holding.meta.slot !== undefined || holding.install !== undefined;
      if (isHeld || this.#ports.isOurs(key) || this.#holdings.get(key) !== holding) return over();
      const end = (): void => {
        // Whoever waits for a turn of it would not know of another one with the same rows.
        if (holding.isLast) {
          this.#holdings.delete(key);
          holding.isErased = true;
        }
        over();
        this.#ports.dropped(holding);
      };
      if (isGone) holding.erase(end);
      else end();
    });
  }

  /** Drops what earlier lives of this node have left and what is not ours by now. Ends with the error that stopped it. */
  reconcile(
    verdict: (pool: number, container: number) => 'mine' | 'notMine',
    done: (error: RemusterError | undefined) => void,
  ): void {
    const look = (from: string): void => {
      this.#ports.disk.store.read({ from, to: allReplicaMetas.to, limit: pageRows }, (outcome) => {
        if (!outcome.ok) return done(outcome.error);
        const rows = outcome.value;
        for (const row of rows) this.#judge(row, verdict);
        if (rows.length < pageRows) done(undefined);
        else look(`${rows.at(-1)?.key}\0`);
      });
    };
    look(allReplicaMetas.from);
  }

  #judge({ key: row }: StoreEntry, verdict: (pool: number, container: number) => 'mine' | 'notMine'): void {
    const name = parseReplicaMetaKey(row);
    if (name === undefined) return;
    const { pool, container } = name;
    const key = replicaKey(pool, container);
    const holding = this.get(pool, container, false);
    if (holding === undefined) return;
    const isOurs = this.#ports.isOurs(key) || holding.namedRevision > 0;
    if (isOurs || verdict(pool, container) === 'mine') this.#sweeper.collect(holding);
    else this.drop(key, undefined, 0);
  }
}
