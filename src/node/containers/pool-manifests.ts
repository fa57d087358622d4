/**
 * One manifest file per pool with `restart`, for the total loss of a registry. Creates pools only in a registry that
 * never had one, in one transaction, so that neither two workers nor a crash create them twice or in part.
 *
 *   pools loaded --> files here? --> no pool ever existed? --yes--> create pools from files
 *                                         +--no--> remove files of deleted pools
 */
import { type Done, isRemusterError } from '../../base/errors.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import { type Registry, type RegistryOp, onlyKey } from '../../base/registry.ts';
import type { KnownPool } from '../../containers/contract.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type PoolRequest, poolSpec } from '../../placement/operations/pool-spec.ts';
import { encodeNodeNumber, encodePool } from '../../placement/state/container-records.ts';
import {
  encodeManifest,
  poolOfManifest,
  decodeManifest,
  manifestDirectory,
  manifestPath,
  manifestText,
} from './restart-file.ts';

export type PoolManifestsPorts = {
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly clock: Clock;
  readonly files: Files;
  readonly emit: (event: { readonly kind: string } & Readonly<Record<string, unknown>>) => void;
};

type FoundFile = { readonly text: string; readonly pool: PoolRequest };

const retryMs = 1_000;
const timeoutMs = 5_000;
/** The bounds of one transaction; an operator must compose a cluster with more pools. */
export const manifestPoolsMax = 100;
const manifestBytesMax = 1_000_000;
const lastPool = clusterKey({ kind: 'lastPool' });

export class PoolManifests {
  readonly #ports: PoolManifestsPorts;
  /** The desired and the actual text of the manifest of each pool. */
  readonly #desired = new Map<string, string>();
  readonly #actual = new Map<string, string>();
  #isReady = false;
  #isBusy = false;
  #isOpen = true;
  #cancel: Cancel = () => {};

  constructor(ports: PoolManifestsPorts) {
    this.#ports = ports;
  }

  /** `poolChanged` has been called for all pools of the registry. */
  onPoolsLoaded(): void {
    this.#ports.files.list(manifestDirectory, (outcome) => {
      if (!outcome.ok) return this.#retry(() => this.onPoolsLoaded());
      const pools = outcome.value.map(poolOfManifest).filter((pool) => pool !== undefined);
      this.#read(pools, new Map());
    });
  }

  poolChanged({ name, record }: KnownPool, isGone: boolean): void {
    if (!isGone && record.restart && record.state === 'active') this.#desired.set(name, manifestText(name, record));
    else this.#desired.delete(name);
    this.#syncFiles();
  }

  stop(): void {
    this.#isOpen = false;
    this.#cancel();
  }

  #read(pools: string[], found: Map<string, FoundFile>): void {
    const name = pools.shift();
    if (name === undefined) return this.#decide(found);
    this.#ports.files.read(manifestPath(name), (outcome) => {
      const file = outcome.ok && outcome.value !== undefined ? decodeManifest(outcome.value) : undefined;
      if (file === undefined) this.#ports.emit({ kind: 'restart.unreadable', pool: name });
      else found.set(name, file);
      this.#read(pools, found);
    });
  }

  #decide(found: ReadonlyMap<string, FoundFile>): void {
    for (const [name, { text }] of found) this.#actual.set(name, text);
    if (found.size === 0 || this.#desired.size > 0) return this.#ready();
    this.#ports.registry.range(onlyKey(lastPool), { limit: 1, timeoutMs }, (outcome) => {
      if (!this.#isOpen) return;
      if (!outcome.ok) return this.#retry(() => this.#decide(found));
      if (outcome.value.entries.length > 0) return this.#ready();
      this.#bootstrap(found);
    });
  }

  #bootstrap(found: ReadonlyMap<string, FoundFile>): void {
    const { names, then } = this.#creations(found);
    if (names.length === 0) return this.#ready();
    const compare = [{ key: lastPool, target: 'version', is: 'equal', than: 0 }] as const;
    const done: Done<{ readonly succeeded: boolean }> = (outcome) => {
      if (!this.#isOpen) return;
      // The outcome is unknown: the retry reads the number of the last pool.
      if (!outcome.ok) return this.#retry(() => this.#decide(found));
      if (outcome.value.succeeded) {
        // Keeps the files until the address table has the pools.
        for (const name of names) this.#desired.set(name, found.get(name)?.text ?? '');
        this.#ports.emit({ kind: 'restart.created', pools: names });
      }
      this.#ready();
    };
    this.#ports.registry.transact({ compare, then, otherwise: [] }, { timeoutMs }, done);
  }

  #creations(found: ReadonlyMap<string, FoundFile>): { readonly names: string[]; readonly then: RegistryOp[] } {
    const names: string[] = [];
    const then: RegistryOp[] = [];
    let bytes = 0;
    for (const [name, { pool }] of found) {
      const spec = specOf({ ...pool, name });
      const common = { major: names.length + 1, minor: 0, moduleVersion: 0, state: 'active' } as const;
      const value = spec === undefined ? undefined : encodePool({ ...spec, ...common });
      bytes += value?.length ?? 0;
      if (value === undefined || names.length === manifestPoolsMax || bytes > manifestBytesMax) {
        this.#ports.emit({ kind: 'restart.unreadable', pool: name });
        continue;
      }
      names.push(name);
      then.push({ kind: 'put', key: clusterKey({ kind: 'pool', pool: name }), value });
    }
    then.push({ kind: 'put', key: lastPool, value: encodeNodeNumber(names.length) });
    return { names, then };
  }

  #ready(): void {
    this.#isReady = true;
    this.#syncFiles();
  }

  /** Brings the files to their desired state, one at a time. */
  #syncFiles(): void {
    if (!this.#isReady || this.#isBusy || !this.#isOpen) return;
    const { files } = this.#ports;
    const stale = [...this.#actual.keys()].find((name) => !this.#desired.has(name));
    const missing = [...this.#desired].find(([name, text]) => this.#actual.get(name) !== text);
    if (stale !== undefined) {
      return this.#write(
        (done) => files.remove(manifestPath(stale), done),
        () => this.#actual.delete(stale),
      );
    }
    if (missing === undefined) return;
    const [name, text] = missing;
    this.#write(
      (done) => files.replace(manifestPath(name), encodeManifest(text), done),
      () => this.#actual.set(name, text),
    );
  }

  #write(start: (done: Done<void>) => void, written: () => void): void {
    this.#isBusy = true;
    start((outcome) => {
      this.#isBusy = false;
      if (!this.#isOpen) return;
      if (!outcome.ok) return this.#retry(() => this.#syncFiles());
      written();
      this.#syncFiles();
    });
  }

  #retry(run: () => void): void {
    if (this.#isOpen) this.#cancel = this.#ports.clock.schedule(retryMs, run);
  }
}

function specOf(request: PoolRequest): ReturnType<typeof poolSpec> | undefined {
  try {
    return poolSpec({ ...request, restart: true, force: true });
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
