/** Knows the newest container records that any manager has applied, at each instant. For checkers and test helpers. */
import { keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { type ContainerRecord, readContainer, readPool } from '../../placement/state/container-records.ts';
import type { Keyspace } from '../../registry/keyspace/keyspace.ts';
import type { RegistryReplica } from '../../registry/replica/registry-replica.ts';

const entriesMax = 10_000;

export type ContainerLabel = { readonly pool: string; readonly container: number };

export type RegistryOracleEvents = {
  readonly changed?: (name: ContainerLabel, record: ContainerRecord | undefined) => void;
  /** There is no such pool any more. */
  readonly poolEnded?: (pool: string) => void;
  /** What to call a pool; its name if left out. */
  readonly labelOf?: (name: string, params: unknown) => string;
};

type Placed = { readonly name: ContainerLabel; readonly record: ContainerRecord };

export class RegistryOracle {
  readonly #events: RegistryOracleEvents;
  readonly #placed = new Map<string, Placed>();
  readonly #majors = new Map<string, number>();
  /** By name: what the pool that has it now is called here. */
  readonly #labels = new Map<string, string>();
  #next = 1;

  constructor(events: RegistryOracleEvents = {}) {
    this.#events = events;
  }

  /** A manager has started. */
  watch(replica: RegistryReplica): void {
    const look = (): void => this.#look(replica.keyspace);
    replica.observe({ changed: look, replaced: look, granted: () => undefined, ended: look });
    look();
  }

  record(name: ContainerLabel): ContainerRecord | undefined {
    return this.#placed.get(print(name))?.record;
  }

  /** The number of that pool, as long as it exists. */
  majorOf(pool: string): number | undefined {
    return this.#majors.get(pool);
  }

  /** All containers of which there is a record. */
  containers(): readonly ContainerLabel[] {
    return [...this.#placed.values()].map(({ name }) => name);
  }

  #look(keyspace: Keyspace): void {
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

  /** Pools stand before their containers. */
  #readAll(keyspace: Keyspace): void {
    const { entries } = keyspace.range(keyRanges.containers, entriesMax);
    const pools = new Set(entries.map(({ key }) => poolIn(key)));
    for (const pool of [...this.#labels.keys()]) if (!pools.has(pool)) this.#setPool(pool, undefined);
    const before = new Map(this.#placed);
    for (const { key, value } of entries) {
      const name = this.#set(key, value);
      if (name !== undefined) before.delete(print(name));
    }
    for (const { name } of before.values()) this.#setContainer(name, undefined);
    this.#next = keyspace.revision + 1;
  }

  /** The container that it is about. */
  #set(key: string, value: Uint8Array | undefined): ContainerLabel | undefined {
    const parsed = parseClusterKey(key);
    if (parsed?.kind === 'pool') this.#setPool(parsed.pool, value);
    if (parsed?.kind !== 'container') return undefined;
    const name = { pool: this.#labels.get(parsed.pool) ?? parsed.pool, container: Number(parsed.container) };
    this.#setContainer(name, value === undefined ? undefined : readContainer(value));
    return name;
  }

  #setContainer(name: ContainerLabel, record: ContainerRecord | undefined): void {
    if (record === undefined) this.#placed.delete(print(name));
    else this.#placed.set(print(name), { name, record });
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

function print({ pool, container }: ContainerLabel): string {
  return `${pool}/${container}`;
}

function poolIn(key: string): string | undefined {
  const parsed = parseClusterKey(key);
  return parsed?.kind === 'pool' ? parsed.pool : undefined;
}
