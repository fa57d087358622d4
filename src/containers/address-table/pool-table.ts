/**
 * Owner index and version per container of one pool, in two flat arrays that are never longer than the pool. Version 0:
 * unknown.
 */
import type { KnownPool } from '../contract.ts';
import { noOwner } from './node-index.ts';

const entriesMin = 16;

export class PoolTable {
  readonly #containers: number;
  pool: KnownPool;
  /** Registry revision of the record of the pool. */
  revision: number;
  #owners = new Uint32Array(0);
  #versions = new Float64Array(0);
  #live = 0;

  constructor(pool: KnownPool, revision: number) {
    this.pool = pool;
    this.revision = revision;
    this.#containers = pool.record.containers;
  }

  /** The number of known containers. */
  get live(): number {
    return this.#live;
  }

  /** Above the highest known container. */
  get end(): number {
    return this.#owners.length;
  }

  get bytes(): number {
    return this.#owners.byteLength + this.#versions.byteLength;
  }

  has(container: number): boolean {
    return Number.isInteger(container) && container >= 0 && container < this.#containers;
  }

  ownerAt(container: number): number {
    return this.#owners[container] ?? noOwner;
  }

  versionAt(container: number): number {
    return this.#versions[container] ?? 0;
  }

  /** Only for a container of the pool: see `has`. */
  set(container: number, owner: number, version: number): void {
    if (container >= this.#owners.length) this.#grow(container + 1);
    const before = this.#versions[container] as number;
    if (before > 0) this.#live -= 1;
    if (version > 0) this.#live += 1;
    this.#owners[container] = owner;
    this.#versions[container] = version;
  }

  clear(): void {
    this.#owners = new Uint32Array(0);
    this.#versions = new Float64Array(0);
    this.#live = 0;
  }

  #grow(needed: number): void {
    const entries = Math.min(this.#containers, Math.max(needed, this.#owners.length * 2, entriesMin));
    const owners = new Uint32Array(entries);
    owners.set(this.#owners);
    this.#owners = owners;
    const versions = new Float64Array(entries);
    versions.set(this.#versions);
    this.#versions = versions;
  }
}
