/**
 * Turns registry changes into ordered steps: what to log, then what to apply and report. Within a revision pools come
 * before their containers and go after them. Changes neither the table nor what others see; only numbers of nodes are
 * assigned at once, because the log is written in them.
 */
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import type { ContainerChange, KnownPool } from '../contract.ts';
import { noOwner } from './node-index.ts';
import type { PoolTable } from './pool-table.ts';
import { type RecordChange, recordChangeOfDelta, recordChangeOfEntry } from './record-changes.ts';
import type { TableMemory } from './table-memory.ts';

export type ContainerUpdateStep = {
  readonly kind: 'container';
  readonly change: ContainerChange;
  /** Indexes of the node book. */
  readonly oldOwner: number;
  readonly owner: number;
  /** Of the entry: 0 when the container is gone. */
  readonly version: number;
  /** The entry is not on the disk as it is to be. */
  readonly isDirty: boolean;
};

export type TableUpdateStep =
  | ContainerUpdateStep
  | { readonly kind: 'pool'; readonly pool: KnownPool; readonly revision: number }
  | { readonly kind: 'poolGone'; readonly pool: KnownPool }
  /** Everything up to `revision` is applied; `version` is the latest of what was there. */
  | { readonly kind: 'reached'; readonly revision: number; readonly version: number; readonly isRollback: boolean }
  | { readonly kind: 'loaded' };

type Entry = { readonly owner: number; readonly version: number };
type Staged = {
  readonly pool: KnownPool;
  readonly revision: number;
  readonly table: PoolTable | undefined;
  readonly entries: Map<number, Entry>;
};
type ContainerNews = Extract<RecordChange, { kind: 'container' }>;
type PoolNews = Extract<RecordChange, { kind: 'pool' }>;

const orphansMax = 1_000;

export class TableUpdate {
  readonly steps: TableUpdateStep[] = [];
  readonly #memory: TableMemory;
  /** Pools as they will be; undefined: gone. Those that are not here are as in memory. */
  readonly #pools = new Map<string, Staged | undefined>();
  /** What the log needs to be read by has changed: numbers of nodes, pools. */
  isIndexNew = false;
  /** The number of a node has changed: nothing that was logged before can be read any more. */
  areNumbersChanged = false;
  /** A pool has become known whose containers were passed over before: everything has to be read again. */
  isIncomplete = false;
  /** Pools with containers that were passed over, because nobody knew the pool. */
  readonly #orphans: Set<string>;

  /** Of the table when every step is done. */
  version: number;

  /** `orphans` is kept from one plan to the next. */
  constructor(memory: TableMemory, orphans: Set<string>) {
    this.#memory = memory;
    this.#orphans = orphans;
    this.version = memory.version;
  }

  changed(changes: readonly RegistryChange[], revision: number): void {
    const news = changes.flatMap((change) => recordChangeOfDelta(change) ?? []);
    this.#take(news);
    this.#reached(news, revision, false);
  }

  /** Everything there is. `all`: tell of every container, also of those that have not changed. */
  loaded(entries: readonly RegistryEntry[], revision: number, all: boolean): void {
    const news = entries.flatMap((entry) => recordChangeOfEntry(entry) ?? []);
    this.#orphans.clear();
    const seen = new Seen(news);
    for (const name of this.#names()) {
      if (!seen.hasPool(name)) this.#poolGone(name);
    }
    this.#take(news, all);
    for (const name of this.#names()) {
      if (!seen.isUnreadable(name)) this.#removeUnseen(name, seen);
    }
    // A registry that was put back to an earlier time is the truth all the same.
    this.#reached(news, revision, revision < this.#memory.version);
    this.steps.push({ kind: 'loaded' });
  }

  #take(news: readonly RecordChange[], all = false): void {
    for (const one of news) {
      if (one.kind === 'number') this.#number(one);
      else if (one.kind === 'pool' && one.record !== undefined) this.#pool(one);
    }
    for (const one of news) if (one.kind === 'container') this.#container(one, all);
    for (const one of news) if (one.kind === 'pool' && one.record === undefined) this.#poolGone(one.name);
  }

  #reached(news: readonly RecordChange[], revision: number, isRollback: boolean): void {
    const version = highestOf(news);
    this.version = isRollback ? version : Math.max(this.version, version);
    this.steps.push({ kind: 'reached', revision, version, isRollback });
  }

  #number({ node, number }: Extract<RecordChange, { kind: 'number' }>): void {
    const verdict = this.#memory.nodes.setNumber(node, number);
    if (verdict !== 'same') this.isIndexNew = true;
    if (verdict === 'changed') this.areNumbersChanged = true;
  }

  #pool({ name, record, revision }: PoolNews): void {
    if (record === undefined) return;
    const before = this.#staged(name);
    const isSame = before?.pool.record.major === record.major && before.pool.record.minor === record.minor;
    if (isSame && before.revision === revision) return;
    if (before !== undefined && !isSame) this.#poolGone(name);
    const pool: KnownPool = { name, record };
    const kept = isSame ? before : undefined;
    const entries = kept?.entries ?? new Map<number, Entry>();
    this.#pools.set(name, { pool, revision, table: kept?.table, entries });
    this.steps.push({ kind: 'pool', pool, revision });
    this.isIndexNew = true;
    if (this.#orphans.delete(name)) this.isIncomplete = true;
  }

  #poolGone(name: string): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) this.#remove(staged, container, 0);
    this.#pools.set(name, undefined);
    this.steps.push({ kind: 'poolGone', pool: staged.pool });
    this.isIndexNew = true;
  }

  #container({ pool: name, container, record, revision }: ContainerNews, all: boolean): void {
    const staged = this.#staged(name);
    if (staged === undefined) {
      if (record !== undefined && this.#orphans.size < orphansMax) this.#orphans.add(name);
      return;
    }
    if (container >= staged.pool.record.containers) return;
    if (record === undefined) return this.#remove(staged, container, revision);
    const before = entryOf(staged, container);
    const owner = this.#memory.nodes.indexOf(record.owner?.node);
    const isNew = before.version !== revision || before.owner !== owner;
    if (!isNew && !all) return;
    this.#stage(staged, { container, record, revision }, { before, after: { owner, version: revision }, isNew });
  }

  #remove(staged: Staged, container: number, revision: number): void {
    const before = entryOf(staged, container);
    if (before.version === 0) return;
    const after = { owner: noOwner, version: 0 };
    const change = { container, record: undefined, revision: Math.max(revision, before.version) };
    this.#stage(staged, change, { before, after, isNew: true });
  }

  #stage(
    staged: Staged,
    change: Omit<ContainerChange, 'pool'>,
    { before, after, isNew }: { readonly before: Entry; readonly after: Entry; readonly isNew: boolean },
  ): void {
    if (isNew) staged.entries.set(change.container, after);
    const step = { change: { pool: staged.pool, ...change }, oldOwner: before.owner, ...after, isDirty: isNew };
    this.steps.push({ kind: 'container', ...step });
  }

  #removeUnseen(name: string, seen: Seen): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) {
      if (!seen.hasContainer(name, container)) this.#remove(staged, container, 0);
    }
  }

  #staged(name: string): Staged | undefined {
    if (this.#pools.has(name)) return this.#pools.get(name);
    const table = this.#memory.pool(name);
    if (table === undefined) return undefined;
    const staged = { pool: table.pool, revision: table.revision, table, entries: new Map<number, Entry>() };
    this.#pools.set(name, staged);
    return staged;
  }

  #names(): readonly string[] {
    const names = new Set<string>();
    for (const table of this.#memory.pools()) names.add(table.pool.name);
    for (const [name, staged] of this.#pools) if (staged !== undefined) names.add(name);
    return [...names];
  }

  /** A pool as it will be when every step is done, for a log that is written anew. */
  entriesOf(name: string, visit: (container: number, entry: Entry) => void): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) visit(container, entryOf(staged, container));
  }

  /** The pools as they will be. */
  pools(): readonly { readonly pool: KnownPool; readonly revision: number }[] {
    return this.#names().flatMap((name) => this.#staged(name) ?? []);
  }
}

function entryOf({ table, entries }: Staged, container: number): Entry {
  const staged = entries.get(container);
  if (staged !== undefined) return staged;
  return { owner: table?.ownerAt(container) ?? noOwner, version: table?.versionAt(container) ?? 0 };
}

/** In ascending order. */
function knownIn(staged: Staged): readonly number[] {
  const known: number[] = [];
  let end = staged.table?.end ?? 0;
  for (const container of staged.entries.keys()) end = Math.max(end, container + 1);
  for (let container = 0; container < end; container++) {
    if (entryOf(staged, container).version > 0) known.push(container);
  }
  return known;
}

function highestOf(news: readonly RecordChange[]): number {
  let highest = 0;
  for (const { revision } of news) highest = Math.max(highest, revision);
  return highest;
}

/** What a reading of everything has shown. */
class Seen {
  readonly #pools = new Set<string>();
  readonly #unreadable = new Set<string>();
  readonly #containers = new Map<string, Set<number>>();

  constructor(news: readonly RecordChange[]) {
    for (const one of news) {
      if (one.kind === 'pool' && one.record !== undefined) this.#pools.add(one.name);
      else if (one.kind === 'unreadable' && one.container === undefined) this.#unreadable.add(one.pool);
      else if ((one.kind === 'container' || one.kind === 'unreadable') && one.container !== undefined) {
        this.#add(one.pool, one.container);
      }
    }
  }

  hasPool(name: string): boolean {
    return this.#pools.has(name) || this.#unreadable.has(name);
  }

  isUnreadable(name: string): boolean {
    return this.#unreadable.has(name);
  }

  hasContainer(pool: string, container: number): boolean {
    return this.#containers.get(pool)?.has(container) ?? false;
  }

  #add(pool: string, container: number): void {
    const known = this.#containers.get(pool);
    if (known === undefined) this.#containers.set(pool, new Set([container]));
    else known.add(container);
  }
}
