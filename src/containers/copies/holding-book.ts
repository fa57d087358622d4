/**
 * Everything this node holds, by container, and how it goes when the record says that it is not ours any more. Nothing
 * is dropped because it is unknown: only a record without us, a container that was deleted, or a table that the registry
 * has confirmed.
 *
 *   drop: the meta row says "nothing" -> rows are swept -> the meta row goes too, if the container is gone
 *
 * While its container lives elsewhere the meta row stays, because it knows the highest fence that was here.
 */
import type { RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Clock, StoreEntry } from '../../base/ports.ts';
import { Holding, type Shelf } from './holding.ts';
import { type Meta, allMetas, noMeta, parseMetaKey } from './layout.ts';
import { Sweeper } from './sweeper.ts';

export type BookPorts = {
  readonly clock: Clock;
  readonly disk: Shelf;
  readonly memory: Shelf;
  readonly holdingsMax: number;
  /** The last record that we know names us. */
  readonly isOurs: (key: string) => boolean;
  readonly dropped: (holding: Holding) => void;
};

const pageRows = 500;
const dropRetryMs = 1_000;

export function holdingKey(pool: number, container: number): string {
  return `${pool}/${container}`;
}

export class HoldingBook {
  readonly #ports: BookPorts;
  readonly #holdings = new Map<string, Holding>();
  readonly #sweeper: Sweeper;

  constructor(ports: BookPorts) {
    this.#ports = ports;
    this.#sweeper = new Sweeper(ports.clock);
  }

  get size(): number {
    return this.#holdings.size;
  }

  get sweeping(): number {
    return this.#sweeper.waiting;
  }

  /** Undefined when there are too many. */
  of(pool: number, container: number, isMemory: boolean): Holding | undefined {
    const key = holdingKey(pool, container);
    const known = this.#holdings.get(key);
    if (known !== undefined || this.#holdings.size >= this.#ports.holdingsMax) return known;
    const holding = new Holding(pool, container, isMemory ? this.#ports.memory : this.#ports.disk);
    this.#holdings.set(key, holding);
    return holding;
  }

  /** Deletes what a crash or a snapshot has left. */
  sweep(holding: Holding): void {
    this.#sweeper.sweep(holding);
  }

  /** An owner has counted on us by a later record than this one. */
  isTold(pool: number, container: number, revision: number): boolean {
    return revision < (this.#holdings.get(holdingKey(pool, container))?.toldRevision ?? 0);
  }

  /** `fence` and revision of the record that does not name us; no fence when the container is gone. */
  drop(key: string, fence: Fence | undefined, revision: number): void {
    const holding = this.#holdings.get(key);
    if (holding === undefined) return;
    holding.turn((over, error) => {
      // It may have taken a while: an owner may count on us by a later record, of which we have not heard yet.
      if (this.#ports.isOurs(key) || holding.toldRevision > revision) return over();
      if (error !== undefined) {
        over();
        return this.#dropLater(key, fence, revision);
      }
      holding.building = undefined;
      const seen = fence === undefined || holding.meta.seen > fence ? holding.meta.seen : fence;
      const nothing: Meta = { ...noMeta, seen };
      holding.write([], 0, nothing, (outcome) => {
        over();
        if (outcome.ok) this.#sweeper.sweep(holding, () => this.#swept(holding, key, fence === undefined));
        else this.#dropLater(key, fence, revision);
      });
    });
  }

  #dropLater(key: string, fence: Fence | undefined, revision: number): void {
    this.#ports.clock.schedule(dropRetryMs, () => this.drop(key, fence, revision));
  }

  #swept(holding: Holding, key: string, isGone: boolean): void {
    holding.turn((over) => {
      const isHeld = holding.meta.slot !== undefined || holding.building !== undefined;
      if (isHeld || this.#ports.isOurs(key) || this.#holdings.get(key) !== holding) return over();
      const end = (): void => {
        // Whoever waits for a turn of it would not know of another one with the same rows.
        if (holding.isLast) {
          this.#holdings.delete(key);
          holding.isForgotten = true;
        }
        over();
        this.#ports.dropped(holding);
      };
      if (isGone) holding.forget(end);
      else end();
    });
  }

  /** Drops what earlier lives of this node have left and what is not ours by now. Ends with the error that stopped it. */
  reconcile(
    verdict: (pool: number, container: number) => 'mine' | 'notMine',
    done: (error: RemusterError | undefined) => void,
  ): void {
    const look = (from: string): void => {
      this.#ports.disk.store.read({ from, to: allMetas.to, limit: pageRows }, (outcome) => {
        if (!outcome.ok) return done(outcome.error);
        const rows = outcome.value;
        for (const row of rows) this.#judge(row, verdict);
        if (rows.length < pageRows) done(undefined);
        else look(`${rows.at(-1)?.key}\0`);
      });
    };
    look(allMetas.from);
  }

  #judge({ key: row }: StoreEntry, verdict: (pool: number, container: number) => 'mine' | 'notMine'): void {
    const name = parseMetaKey(row);
    if (name === undefined) return;
    const { pool, container } = name;
    const key = holdingKey(pool, container);
    const holding = this.of(pool, container, false);
    if (holding === undefined) return;
    const isOurs = this.#ports.isOurs(key) || holding.toldRevision > 0;
    if (isOurs || verdict(pool, container) === 'mine') this.#sweeper.sweep(holding);
    else this.drop(key, undefined, 0);
  }
}
