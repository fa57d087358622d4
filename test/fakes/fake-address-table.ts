/** A fake AddressTable: the test sets pools, owners and versions, so a table can be stale. */
import type { NodeId } from '../../src/base/ids.ts';
import type { Cancel } from '../../src/base/ports.ts';
import type { AddressTable, KnownPool } from '../../src/containers/contract.ts';

type Entry = { owner: NodeId | undefined; version: number };

export class FakeAddressTable implements AddressTable {
  readonly known = new Map<string, KnownPool>();
  readonly #entries = new Map<string, Entry>();
  readonly #watchers = new Map<string, Set<() => void>>();
  version = 0;

  pool(name: string): KnownPool | undefined {
    return this.known.get(name);
  }

  poolByNumber(major: number): KnownPool | undefined {
    return this.pools().find(({ record }) => record.major === major);
  }

  pools(): readonly KnownPool[] {
    return [...this.known.values()];
  }

  ownerOf(pool: KnownPool, container: number): NodeId | undefined {
    return this.#entries.get(keyOf(pool, container))?.owner;
  }

  versionOf(pool: KnownPool, container: number): number {
    return this.#entries.get(keyOf(pool, container))?.version ?? 0;
  }

  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void {
    if (version <= this.versionOf(pool, container)) return;
    const before = this.ownerOf(pool, container);
    this.#entries.set(keyOf(pool, container), { owner, version });
    this.version = Math.max(this.version, version);
    if (before === owner) return;
    for (const changed of [...(this.#watchers.get(keyOf(pool, container)) ?? [])]) changed();
  }

  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel {
    const watchers = this.#watchers.get(keyOf(pool, container)) ?? new Set();
    this.#watchers.set(keyOf(pool, container), watchers);
    watchers.add(changed);
    return () => watchers.delete(changed);
  }

  get watched(): number {
    return [...this.#watchers.values()].reduce((sum, { size }) => sum + size, 0);
  }

  hash(): string {
    return '';
  }
}

function keyOf(pool: KnownPool, container: number): string {
  return `${pool.name}/${container}`;
}
