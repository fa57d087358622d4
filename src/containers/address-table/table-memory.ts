/**
 * The table in memory: pools, owners and versions, with version and hash of the whole. Applies changes that the host
 * has logged before.
 */
import type { NodeId } from '../../base/ids.ts';
import type { KnownPool } from '../contract.ts';
import { EntrySetHash } from './entry-hash.ts';
import { NodeIndex, noOwner } from './node-index.ts';
import { PoolTable } from './pool-table.ts';

/** Stands for the pool itself in place of a container number, in the hash. */
const poolMarker = 0xffff_ffff;

export class TableMemory {
  readonly nodes = new NodeIndex();
  readonly #byName = new Map<string, PoolTable>();
  readonly #byMajor = new Map<number, PoolTable>();
  readonly #hash = new EntrySetHash();
  #version = 0;

  /** The highest revision applied. */
  get version(): number {
    return this.#version;
  }

  get hashWords(): readonly [number, number] {
    return this.#hash.words;
  }

  pool(name: string): PoolTable | undefined {
    return this.#byName.get(name);
  }

  poolByNumber(major: number): PoolTable | undefined {
    return this.#byMajor.get(major);
  }

  pools(): IterableIterator<PoolTable> {
    return this.#byName.values();
  }

  ownerOf(pool: KnownPool, container: number): NodeId | undefined {
    const table = this.#byMajor.get(pool.record.major);
    return table === undefined ? undefined : this.nodes.idAt(table.ownerAt(container));
  }

  versionOf(pool: KnownPool, container: number): number {
    return this.#byMajor.get(pool.record.major)?.versionAt(container) ?? 0;
  }

  setPool(pool: KnownPool, revision: number): PoolTable {
    const { major, minor } = pool.record;
    let table = this.#byMajor.get(major);
    if (table === undefined) {
      table = new PoolTable(pool, revision);
      this.#byMajor.set(major, table);
      this.#byName.set(pool.name, table);
    } else {
      this.#hash.remove(major, poolMarker, table.pool.record.minor, table.revision);
      table.pool = pool;
      table.revision = revision;
    }
    this.#hash.add(major, poolMarker, minor, revision);
    return table;
  }

  /** Removes the pool and its remaining containers. */
  removePool(table: PoolTable): void {
    const { name, record } = table.pool;
    for (let container = 0; container < table.end; container++) this.set(table, container, noOwner, 0);
    this.#hash.remove(record.major, poolMarker, record.minor, table.revision);
    this.#byMajor.delete(record.major);
    if (this.#byName.get(name) === table) this.#byName.delete(name);
  }

  /** Version 0: the container is deleted. */
  set(table: PoolTable, container: number, owner: number, version: number): void {
    const { major } = table.pool.record;
    const before = table.versionAt(container);
    if (before > 0) this.#hash.remove(major, container, this.nodes.hashAt(table.ownerAt(container)), before);
    table.set(container, owner, version);
    if (version > 0) this.#hash.add(major, container, this.nodes.hashAt(owner), version);
  }

  /** Adds the entries of a replayed pool to the hash. */
  hashEntries(table: PoolTable): void {
    const { major } = table.pool.record;
    for (let container = 0; container < table.end; container++) {
      const version = table.versionAt(container);
      if (version > 0) this.#hash.add(major, container, this.nodes.hashAt(table.ownerAt(container)), version);
    }
  }

  setVersion(version: number): void {
    this.#version = Math.max(this.#version, version);
  }

  /** The registry was restored from an older backup. */
  rollBackTo(version: number): void {
    this.#version = version;
  }
}
