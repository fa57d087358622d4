/** Reads pools, containers and nodes from the registry, page by page. Writes nothing. */
import { type Done, failure, success } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import { type KeyRange, type Registry, type RegistryEntry, onlyKey } from '../../base/registry.ts';
import { ClusterView } from '../state/cluster-view.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import type { ContainerLookup } from './pool-views.ts';
import { type PoolRecord, readContainer, readPool } from '../state/container-records.ts';

type Entries = ReadonlyMap<string, RegistryEntry>;
export type StoredPool = { readonly record: PoolRecord; readonly modRevision: number };

const timeoutMs = 5_000;
const pageEntries = 1_000;

export class PoolReader {
  readonly #registry: Pick<Registry, 'range'>;
  readonly #clock: Clock;

  constructor(registry: Pick<Registry, 'range'>, clock: Clock) {
    this.#registry = registry;
    this.#clock = clock;
  }

  find(name: string, done: Done<never>, found: (pool: StoredPool) => void): void {
    if (!namePattern.test(name)) {
      this.#clock.schedule(0, () => done(failure('BAD_ARGUMENT', `"${name}" cannot be the name of a pool`)));
      return;
    }
    const key = clusterKey({ kind: 'pool', pool: name });
    this.read([onlyKey(key)], (outcome) => {
      if (!outcome.ok) return done(outcome);
      const entry = outcome.value.get(key);
      if (entry === undefined) return done(failure('UNKNOWN_POOL', `there is no pool ${name}`));
      const record = readPool(entry.value);
      if (record === undefined) return done(failure('PRECONDITION', `the record of pool ${name} cannot be read`, 'no'));
      found({ record, modRevision: entry.modRevision });
    });
  }

  /** The pool, and a view of the nodes. */
  findWithView(name: string, done: Done<never>, found: (pool: StoredPool, view: ClusterView) => void): void {
    this.find(name, done, (pool) => {
      const entries: RegistryEntry[] = [];
      this.readPages(
        keyRanges.nodeDirectory,
        (entry) => void entries.push(entry),
        (outcome) => {
          if (!outcome.ok) return done(outcome);
          found(pool, ClusterView.from(entries, 0, this.#clock.nowMs()));
        },
      );
    });
  }

  findContainer<T>(
    pool: string,
    id: number,
    done: Done<T>,
    describe: (view: ClusterView, pool: PoolRecord, found: ContainerLookup | undefined) => T,
  ): void {
    this.findWithView(pool, done, ({ record }, view) => {
      if (!Number.isInteger(id) || id < 0 || id >= record.containers)
        return done(
          failure('UNKNOWN_CONTAINER', `pool ${pool} has the containers 0 to ${record.containers - 1}, not ${id}`),
        );
      const key = clusterKey({ kind: 'container', pool, container: String(id) });
      this.read([onlyKey(key)], (outcome) => {
        if (!outcome.ok) return done(outcome);
        const entry = outcome.value.get(key);
        done(success(describe(view, record, entry && containerLookupOf(entry))));
      });
    });
  }

  /** Reads single keys, one after the other. */
  read(ranges: readonly KeyRange[], done: Done<Entries>, before: Entries = new Map()): void {
    const [range, ...rest] = ranges;
    if (range === undefined) return done(success(before));
    this.#registry.range(range, { limit: 1, timeoutMs }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      this.read(rest, done, new Map([...before, ...outcome.value.entries.map((entry) => [entry.key, entry] as const)]));
    });
  }

  readPages(range: KeyRange, take: (entry: RegistryEntry) => void, done: Done<void>): void {
    this.#registry.range(range, { limit: pageEntries, timeoutMs }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      for (const entry of outcome.value.entries) take(entry);
      const last = outcome.value.entries.at(-1);
      if (outcome.value.more && last !== undefined) this.readPages({ ...range, from: `${last.key}\0` }, take, done);
      else done(success(undefined));
    });
  }
}

export function containerLookupOf({ value, modRevision }: RegistryEntry): ContainerLookup {
  return { record: readContainer(value), version: modRevision };
}
