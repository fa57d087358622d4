/**
 * What the registry says about containers at this instant, whoever has heard of it: the newest that any manager has
 * applied. Managers come and go; each tells of every change in the very step in which it applies it.
 */
import { clusterKey, keyRanges, parseClusterKey } from '../../registry/keys.ts';
import { type ContainerRecord, readContainer, readPool } from '../../registry/placement/records.ts';
import type { Keyspace } from '../../registry/keyspace.ts';
import type { RegistryReplica } from '../../registry/registry-replica.ts';
import type { ContainerName } from './observation.ts';

const entriesMax = 10_000;

export class RegistryTruth {
  readonly #records = new Map<string, ContainerRecord>();
  readonly #changed: (name: ContainerName, record: ContainerRecord | undefined) => void;
  readonly #majors = new Map<string, number>();
  #next = 1;

  constructor(changed: (name: ContainerName, record: ContainerRecord | undefined) => void) {
    this.#changed = changed;
  }

  /** A manager has started. */
  follow(replica: RegistryReplica): void {
    const look = (): void => this.#look(replica.keyspace);
    replica.observe({ changed: look, replaced: look, granted: () => undefined, ended: look });
    look();
  }

  record({ pool, container }: ContainerName): ContainerRecord | undefined {
    return this.#records.get(clusterKey({ kind: 'container', pool, container: String(container) }));
  }

  /** The number of that pool, as long as it exists. */
  majorOf(pool: string): number | undefined {
    return this.#majors.get(pool);
  }

  /** All containers of which there is a record. */
  containers(): readonly ContainerName[] {
    return [...this.#records.keys()].flatMap((key) => nameIn(key) ?? []);
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

  #readAll(keyspace: Keyspace): void {
    const { entries } = keyspace.range(keyRanges.containers, entriesMax);
    const found = new Map(entries.map(({ key, value }) => [key, value]));
    this.#majors.clear();
    for (const key of [...this.#records.keys()]) if (!found.has(key)) this.#set(key, undefined);
    for (const [key, value] of found) this.#set(key, value);
    this.#next = keyspace.revision + 1;
  }

  #set(key: string, value: Uint8Array | undefined): void {
    const name = parseClusterKey(key);
    if (name?.kind === 'pool') this.#setPool(name.pool, value);
    if (name?.kind !== 'container') return;
    const record = value === undefined ? undefined : readContainer(value);
    if (record === undefined) this.#records.delete(key);
    else this.#records.set(key, record);
    this.#changed({ pool: name.pool, container: Number(name.container) }, record);
  }

  #setPool(pool: string, value: Uint8Array | undefined): void {
    const record = value === undefined ? undefined : readPool(value);
    if (record === undefined) this.#majors.delete(pool);
    else this.#majors.set(pool, record.major);
  }
}

function nameIn(key: string): ContainerName | undefined {
  const parsed = parseClusterKey(key);
  return parsed?.kind === 'container' ? { pool: parsed.pool, container: Number(parsed.container) } : undefined;
}
