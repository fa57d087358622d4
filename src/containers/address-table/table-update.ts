/**
 * Turns registry changes into ordered steps to log, then to apply and report. Within a revision a pool is created
 * before its containers and deleted after them. Does not change the table, except for node numbers, which the log
 * needs.
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
  /** Indexes of `NodeIndex`. */
  readonly oldOwner: number;
  readonly owner: number;
  /** Version of the entry; 0: the container is deleted. */
  readonly version: number;
  /** The entry must be logged. */
  readonly isDirty: boolean;
};

export type TableUpdateStep =
  | ContainerUpdateStep
  | { readonly kind: 'pool'; readonly pool: KnownPool; readonly revision: number }
  | { readonly kind: 'poolGone'; readonly pool: KnownPool }
  /** All changes up to `revision` are applied; `version` is the highest revision among them. */
  | { readonly kind: 'reached'; readonly revision: number; readonly version: number; readonly isRollback: boolean }
  | { readonly kind: 'loaded' };

type Entry = { readonly owner: number; readonly version: number };
type StagedPool = {
  readonly pool: KnownPool;
  readonly revision: number;
  readonly table: PoolTable | undefined;
  readonly entries: Map<number, Entry>;
};
type ContainerRecordChange = Extract<RecordChange, { kind: 'container' }>;
type PoolRecordChange = Extract<RecordChange, { kind: 'pool' }>;

const unknownPoolsMax = 1_000;

export class TableUpdate {
  readonly steps: TableUpdateStep[] = [];
  readonly #memory: TableMemory;
  /** Pools after the update; undefined: deleted; missing: unchanged. */
  readonly #pools = new Map<string, StagedPool | undefined>();
  /** Node numbers or pools have changed: the index must be written before the log. */
  isIndexStale = false;
  /** The number of a node has changed: the earlier log cannot be read any more. */
  areNodeNumbersChanged = false;
  /** A pool has arrived whose containers were skipped before: everything must be loaded again. */
  isIncomplete = false;
  /** Pools whose containers were skipped because the pool was unknown. */
  readonly #unknownPools: Set<string>;

  /** Version of the table after the last step. */
  version: number;

  /** `unknownPools` is shared by successive updates. */
  constructor(memory: TableMemory, unknownPools: Set<string>) {
    this.#memory = memory;
    this.#unknownPools = unknownPools;
    this.version = memory.version;
  }

  changed(changes: readonly RegistryChange[], revision: number): void {
    const recordChanges = changes.flatMap((change) => recordChangeOfDelta(change) ?? []);
    this.#stageAll(recordChanges);
    this.#addReached(recordChanges, revision, false);
  }

  /** The whole key range. `all`: report unchanged containers too. */
  loaded(entries: readonly RegistryEntry[], revision: number, all: boolean): void {
    const recordChanges = entries.flatMap((entry) => recordChangeOfEntry(entry) ?? []);
    this.#unknownPools.clear();
    const listed = new Listed(recordChanges);
    for (const name of this.#names()) {
      if (!listed.hasPool(name)) this.#poolGone(name);
    }
    this.#stageAll(recordChanges, all);
    for (const name of this.#names()) {
      if (!listed.isUnreadable(name)) this.#removeUnlisted(name, listed);
    }
    // A registry that was restored from an older backup is authoritative too.
    this.#addReached(recordChanges, revision, revision < this.#memory.version);
    this.steps.push({ kind: 'loaded' });
  }

  #stageAll(changes: readonly RecordChange[], all = false): void {
    for (const change of changes) {
      if (change.kind === 'number') this.#number(change);
      else if (change.kind === 'pool' && change.record !== undefined) this.#pool(change);
    }
    for (const change of changes) if (change.kind === 'container') this.#container(change, all);
    for (const change of changes)
      if (change.kind === 'pool' && change.record === undefined) this.#poolGone(change.name);
  }

  #addReached(changes: readonly RecordChange[], revision: number, isRollback: boolean): void {
    const version = highestOf(changes);
    this.version = isRollback ? version : Math.max(this.version, version);
    this.steps.push({ kind: 'reached', revision, version, isRollback });
  }

  #number({ node, number }: Extract<RecordChange, { kind: 'number' }>): void {
    const result = this.#memory.nodes.setNumber(node, number);
    if (result !== 'same') this.isIndexStale = true;
    if (result === 'changed') this.areNodeNumbersChanged = true;
  }

  #pool({ name, record, revision }: PoolRecordChange): void {
    if (record === undefined) return;
    const before = this.#staged(name);
    const isSame = before?.pool.record.major === record.major && before.pool.record.minor === record.minor;
    if (isSame && before.revision === revision) return;
    if (before !== undefined && !isSame) this.#poolGone(name);
    const pool: KnownPool = { name, record };
    const same = isSame ? before : undefined;
    const entries = same?.entries ?? new Map<number, Entry>();
    this.#pools.set(name, { pool, revision, table: same?.table, entries });
    this.steps.push({ kind: 'pool', pool, revision });
    this.isIndexStale = true;
    if (this.#unknownPools.delete(name)) this.isIncomplete = true;
  }

  #poolGone(name: string): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) this.#remove(staged, container, 0);
    this.#pools.set(name, undefined);
    this.steps.push({ kind: 'poolGone', pool: staged.pool });
    this.isIndexStale = true;
  }

  #container({ pool: name, container, record, revision }: ContainerRecordChange, all: boolean): void {
    const staged = this.#staged(name);
    if (staged === undefined) {
      if (record !== undefined && this.#unknownPools.size < unknownPoolsMax) this.#unknownPools.add(name);
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

  #remove(staged: StagedPool, container: number, revision: number): void {
    const before = entryOf(staged, container);
    if (before.version === 0) return;
    const after = { owner: noOwner, version: 0 };
    const change = { container, record: undefined, revision: Math.max(revision, before.version) };
    this.#stage(staged, change, { before, after, isNew: true });
  }

  #stage(
    staged: StagedPool,
    change: Omit<ContainerChange, 'pool'>,
    { before, after, isNew }: { readonly before: Entry; readonly after: Entry; readonly isNew: boolean },
  ): void {
    if (isNew) staged.entries.set(change.container, after);
    const step = { change: { pool: staged.pool, ...change }, oldOwner: before.owner, ...after, isDirty: isNew };
    this.steps.push({ kind: 'container', ...step });
  }

  #removeUnlisted(name: string, listed: Listed): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) {
      if (!listed.hasContainer(name, container)) this.#remove(staged, container, 0);
    }
  }

  #staged(name: string): StagedPool | undefined {
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

  /** The entries of a pool after the last step, for a log that is rewritten. */
  entriesOf(name: string, visit: (container: number, entry: Entry) => void): void {
    const staged = this.#staged(name);
    if (staged === undefined) return;
    for (const container of knownIn(staged)) visit(container, entryOf(staged, container));
  }

  /** The pools after the last step. */
  pools(): readonly { readonly pool: KnownPool; readonly revision: number }[] {
    return this.#names().flatMap((name) => this.#staged(name) ?? []);
  }
}

function entryOf({ table, entries }: StagedPool, container: number): Entry {
  const staged = entries.get(container);
  if (staged !== undefined) return staged;
  return { owner: table?.ownerAt(container) ?? noOwner, version: table?.versionAt(container) ?? 0 };
}

/** In ascending order. */
function knownIn(staged: StagedPool): readonly number[] {
  const known: number[] = [];
  let end = staged.table?.end ?? 0;
  for (const container of staged.entries.keys()) end = Math.max(end, container + 1);
  for (let container = 0; container < end; container++) {
    if (entryOf(staged, container).version > 0) known.push(container);
  }
  return known;
}

function highestOf(changes: readonly RecordChange[]): number {
  let highest = 0;
  for (const { revision } of changes) highest = Math.max(highest, revision);
  return highest;
}

/** The pools and containers of a whole load. */
class Listed {
  readonly #pools = new Set<string>();
  readonly #unreadable = new Set<string>();
  readonly #containers = new Map<string, Set<number>>();

  constructor(changes: readonly RecordChange[]) {
    for (const change of changes) {
      if (change.kind === 'pool' && change.record !== undefined) this.#pools.add(change.name);
      else if (change.kind === 'unreadable' && change.container === undefined) this.#unreadable.add(change.pool);
      else if ((change.kind === 'container' || change.kind === 'unreadable') && change.container !== undefined) {
        this.#add(change.pool, change.container);
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
