/**
 * Knows the newest container records that any manager has applied, at each instant. For checkers and test helpers; no
 * node sees it.
 */
import { keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type ContainerRecord, readContainer, readPool } from '../../placement/state/container-records.ts';
import type { Keyspace } from '../../registry/keyspace/keyspace.ts';
import type { RegistryReplica } from '../../registry/replica/registry-replica.ts';

const entriesMax = 10_000;

export type ContainerLabel = { readonly pool: string; readonly container: number };

export type RegistryOracleEvents = {
  readonly changed?: (name: ContainerLabel, record: ContainerRecord | undefined) => void;
  /** The pool was deleted. */
  readonly poolEnded?: (pool: string) => void;
  /** The label of a pool in events; its name if left out. */
  readonly labelOf?: (name: string, params: unknown) => string;
};

type PlacedContainer = { readonly name: ContainerLabel; readonly record: ContainerRecord };

export class RegistryOracle {
  readonly #events: RegistryOracleEvents;
  readonly #placed = new Map<string, PlacedContainer>();
  readonly #majors = new Map<string, number>();
  /** Label of the pool that has the name now, by name. */
  readonly #labels = new Map<string, string>();
  #next = 1;

  constructor(events: RegistryOracleEvents = {}) {
    this.#events = events;
  }

  /** Call it for the replica of each manager that starts. */
  watch(replica: RegistryReplica): void {
    const update = (): void => this.#update(replica.keyspace);
    replica.observe({ changed: update, replaced: update, granted: () => undefined, ended: update });
    update();
  }

  record(name: ContainerLabel): ContainerRecord | undefined {
    return this.#placed.get(labelText(name))?.record;
  }

  /** Major number of the pool while it exists. */
  majorOf(pool: string): number | undefined {
    return this.#majors.get(pool);
  }

  /** All containers with a record. */
  containers(): readonly ContainerLabel[] {
    return [...this.#placed.values()].map(({ name }) => name);
  }

  #update(keyspace: Keyspace): void {
    while (keyspace.revision >= this.#next) {
      const part = keyspace.changesFrom(keyRanges.containers, this.#next);
      if (part.kind === 'compacted') return this.#readAll(keyspace);
      for (const { changes } of part.revisions) {
        for (const change of changes) {
          if (change.kind === 'put') this.#set(change.entry.key, change.entry.value);
          else this.#set(change.key, undefined);
        }
      }
      this.#next = part.next;
    }
  }

  /** The key of a pool comes before those of its containers. */
  #readAll(keyspace: Keyspace): void {
    const { entries } = keyspace.range(keyRanges.containers, entriesMax);
    const pools = new Set(entries.map(({ key }) => poolOfKey(key)));
    for (const pool of [...this.#labels.keys()]) if (!pools.has(pool)) this.#setPool(pool, undefined);
    const before = new Map(this.#placed);
    for (const { key, value } of entries) {
      const name = this.#set(key, value);
      if (name !== undefined) before.delete(labelText(name));
    }
    for (const { name } of before.values()) this.#setContainer(name, undefined);
    this.#next = keyspace.revision + 1;
  }

  /** Returns the container that the key belongs to. */
  #set(key: string, value: Uint8Array | undefined): ContainerLabel | undefined {
    const parsed = parseClusterKey(key);
    if (parsed?.kind === 'pool') this.#setPool(parsed.pool, value);
    if (parsed?.kind !== 'container') return undefined;
    const name = { pool: this.#labels.get(parsed.pool) ?? parsed.pool, container: Number(parsed.container) };
    this.#setContainer(name, value === undefined ? undefined : readContainer(value));
    return name;
  }

  #setContainer(name: ContainerLabel, record: ContainerRecord | undefined): void {
    if (record === undefined) this.#placed.delete(labelText(name));
    else this.#placed.set(labelText(name), { name, record });
    this.#events.changed?.(name, record);
  }

  #setPool(name: string, value: Uint8Array | undefined): void {
    const record = value === undefined ? undefined : readPool(value);
    const label = record && (this.#events.labelOf?.(name, record.params) ?? name);
    const before = this.#labels.get(name);
    if (before !== undefined && before !== label) {
      this.#majors.delete(before);
      this.#labels.delete(name);
      this.#events.poolEnded?.(before);
    }
    if (record === undefined || label === undefined) return;
    this.#labels.set(name, label);
    this.#majors.set(label, record.major);
  }
}

function labelText({ pool, container }: ContainerLabel): string {
  return `${pool}/${container}`;
}

function poolOfKey(key: string): string | undefined {
  const parsed = parseClusterKey(key);
  return parsed?.kind === 'pool' ? parsed.pool : undefined;
}
