/**
 * One manifest file per pool that shall return after total loss. Creates pools only in a registry that never had one,
 * in one transaction, so that two workers or a crash make no second or half set.
 *
 *   confirmed --> files here? --> no pool ever existed? --yes--> create them
 *                                      +--no--> files of pools that are gone are removed
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
  readonly tell: (event: { readonly kind: string } & Readonly<Record<string, unknown>>) => void;
};

type FoundFile = { readonly text: string; readonly pool: PoolRequest };

const retryMs = 1_000;
const timeoutMs = 5_000;
/** What fits into one transaction; a cluster with more pools to come back has to be composed by an operator. */
const poolsMax = 100;
const bytesMax = 1_000_000;
const lastPool = clusterKey({ kind: 'lastPool' });

export class PoolManifests {
  readonly #ports: PoolManifestsPorts;
  /** What is to be there, by pool; and what is. */
  readonly #wanted = new Map<string, string>();
  readonly #there = new Map<string, string>();
  #isReady = false;
  #isBusy = false;
  #isOpen = true;
  #cancel: Cancel = () => {};

  constructor(ports: PoolManifestsPorts) {
    this.#ports = ports;
  }

  /** All pools of the registry have been told. */
  onPoolsLoaded(): void {
    this.#ports.files.list(manifestDirectory, (outcome) => {
      if (!outcome.ok) return this.#again(() => this.onPoolsLoaded());
      const pools = outcome.value.map(poolOfManifest).filter((pool) => pool !== undefined);
      this.#read(pools, new Map());
    });
  }

  poolChanged({ name, record }: KnownPool, isGone: boolean): void {
    if (!isGone && record.restart && record.state === 'active') this.#wanted.set(name, manifestText(name, record));
    else this.#wanted.delete(name);
    this.#settle();
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
      if (file === undefined) this.#ports.tell({ kind: 'restart.unreadable', pool: name });
      else found.set(name, file);
      this.#read(pools, found);
    });
  }

  #decide(found: ReadonlyMap<string, FoundFile>): void {
    for (const [name, { text }] of found) this.#there.set(name, text);
    if (found.size === 0 || this.#wanted.size > 0) return this.#ready();
    this.#ports.registry.range(onlyKey(lastPool), { limit: 1, timeoutMs }, (outcome) => {
      if (!this.#isOpen) return;
      if (!outcome.ok) return this.#again(() => this.#decide(found));
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
      // Whether it has happened or not: the next look at the number of the last pool says so.
      if (!outcome.ok) return this.#again(() => this.#decide(found));
      if (outcome.value.succeeded) {
        // Until the table tells of them.
        for (const name of names) this.#wanted.set(name, found.get(name)?.text ?? '');
        this.#ports.tell({ kind: 'restart.created', pools: names });
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
      if (value === undefined || names.length === poolsMax || bytes > bytesMax) {
        this.#ports.tell({ kind: 'restart.unreadable', pool: name });
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
    this.#settle();
  }

  /** Makes what is there what is wanted, one file at a time. */
  #settle(): void {
    if (!this.#isReady || this.#isBusy || !this.#isOpen) return;
    const { files } = this.#ports;
    const stale = [...this.#there.keys()].find((name) => !this.#wanted.has(name));
    const missing = [...this.#wanted].find(([name, text]) => this.#there.get(name) !== text);
    if (stale !== undefined) {
      return this.#write(
        (done) => files.remove(manifestPath(stale), done),
        () => this.#there.delete(stale),
      );
    }
    if (missing === undefined) return;
    const [name, text] = missing;
    this.#write(
      (done) => files.replace(manifestPath(name), encodeManifest(text), done),
      () => this.#there.set(name, text),
    );
  }

  #write(start: (done: Done<void>) => void, written: () => void): void {
    this.#isBusy = true;
    start((outcome) => {
      this.#isBusy = false;
      if (!this.#isOpen) return;
      if (!outcome.ok) return this.#again(() => this.#settle());
      written();
      this.#settle();
    });
  }

  #again(run: () => void): void {
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
