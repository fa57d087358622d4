/** Reads module records, loaded modules and the pools that use a module. Writes nothing. */
import { type Done, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import { type Registry, type RegistryEntry, onlyKey } from '../../base/registry.ts';
import { keyRanges, parseClusterKey } from '../../registry/cluster-keys.ts';
import { PoolReader } from '../operations/pool-reader.ts';
import { type ContainerRecord, type PoolRecord, readContainer, readPool } from '../state/container-records.ts';
import { moduleKey, moduleOfKey, moduleRanges, nodeOfLoadedModulesKey, modulePartKey } from './module-keys.ts';
import {
  type LoadedModules,
  type ModuleRecord,
  type ModuleVersion,
  readLoadedModules,
  readModule,
} from './module-records.ts';

/** `modRevision` 0: the module has no record. */
export type StoredModule = { readonly record: ModuleRecord; readonly modRevision: number };
export type PoolUsingModule = { readonly name: string; readonly record: PoolRecord };

const timeoutMs = 10_000;
const missing: StoredModule = { record: { last: 0, versions: [] }, modRevision: 0 };

export class ModuleReader {
  readonly #registry: Pick<Registry, 'range'>;
  readonly #reader: PoolReader;

  constructor(registry: Pick<Registry, 'range'>, clock: Clock) {
    this.#registry = registry;
    this.#reader = new PoolReader(registry, clock);
  }

  /** A record without versions if the module was never deployed. */
  find(name: string, done: Done<StoredModule>): void {
    const key = moduleKey(name);
    this.#reader.read([onlyKey(key)], (outcome) => {
      if (!outcome.ok) return done(outcome);
      const entry = outcome.value.get(key);
      if (entry === undefined) return done(success(missing));
      const record = readModule(entry.value);
      if (record === undefined)
        return done(failure('PRECONDITION', `the record of module ${name} cannot be read`, 'no'));
      done(success({ record, modRevision: entry.modRevision }));
    });
  }

  list(done: Done<ReadonlyMap<string, ModuleRecord>>): void {
    const found = new Map<string, ModuleRecord>();
    const take = ({ key, value }: RegistryEntry): void => {
      const name = moduleOfKey(key);
      const record = readModule(value);
      if (name !== undefined && record !== undefined) found.set(name, record);
    };
    this.#reader.readPages(moduleRanges.records, take, (outcome) => done(outcome.ok ? success(found) : outcome));
  }

  /** The loaded modules of each registered node. */
  loadedByNode(done: Done<ReadonlyMap<NodeId, LoadedModules>>): void {
    const found = new Map<NodeId, LoadedModules>();
    const take = ({ key, value }: RegistryEntry): void => {
      const node = nodeOfLoadedModulesKey(key);
      if (node !== undefined) found.set(node, readLoadedModules(value));
    };
    this.#reader.readPages(moduleRanges.loaded, take, (outcome) => done(outcome.ok ? success(found) : outcome));
  }

  /** The pools of that module. */
  pools(name: string, done: Done<readonly PoolUsingModule[]>): void {
    const found: PoolUsingModule[] = [];
    const take = ({ key, value }: RegistryEntry): void => {
      const parsed = parseClusterKey(key);
      const record = readPool(value);
      if (parsed?.kind === 'pool' && record?.module === name) found.push({ name: parsed.pool, record });
    };
    this.#reader.readPages(keyRanges.pools, take, (outcome) => done(outcome.ok ? success(found) : outcome));
  }

  containers(pool: string, take: (id: number, record: ContainerRecord) => void, done: Done<void>): void {
    const read = ({ key, value }: RegistryEntry): void => {
      const parsed = parseClusterKey(key);
      const record = readContainer(value);
      if (parsed?.kind === 'container' && record !== undefined) take(Number(parsed.container), record);
    };
    this.#reader.readPages(keyRanges.containersOf(pool), read, done);
  }

  /** The stored code. The caller compares its hash with that of the version. */
  code(name: string, version: ModuleVersion, done: Done<Uint8Array>): void {
    const code = new Uint8Array(version.bytes);
    const next = (part: number, at: number): void => {
      if (part === version.parts) {
        const isWhole = at === version.bytes;
        return done(
          isWhole
            ? success(code)
            : failure('MALFORMED', `the code of version ${version.version} of ${name} is incomplete`),
        );
      }
      const key = onlyKey(modulePartKey(name, version.version, part));
      this.#registry.range(key, { limit: 1, timeoutMs }, (outcome) => {
        if (!outcome.ok) return done(outcome);
        const bytes = outcome.value.entries[0]?.value;
        if (bytes === undefined || at + bytes.length > version.bytes)
          return done(failure('UNKNOWN_KEY', `part ${part} of version ${version.version} of ${name} is missing`));
        code.set(bytes, at);
        next(part + 1, at + bytes.length);
      });
    };
    next(0, 0);
  }
}
