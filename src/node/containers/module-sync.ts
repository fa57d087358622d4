/**
 * Fetches, verifies and imports deployed modules, newest first; removes versions that the registry no longer lists.
 * Retries with backoff.
 *
 *   registry --record--> file with that hash? --no--> fetch parts, check hash, write file --> import --> module catalog
 */
import { type Done, type Outcome, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';
import { type ModuleDefinition, isModule } from '../../containers/module.ts';
import type { ModuleCatalog } from '../../containers/module-catalog.ts';
import { startInformer } from '../../registry/informer.ts';
import { moduleOfKey, moduleRanges } from '../../placement/modules/module-keys.ts';
import { ModuleReader } from '../../placement/modules/module-reader.ts';
import {
  type ModuleRecord,
  type ModuleVersion,
  moduleLimits,
  readModule,
} from '../../placement/modules/module-records.ts';

/** Imports code into the process (io/bundle/deployed-bundles.ts). Paths are those of `files`. */
export type BundleImporter = {
  sha256(bytes: Uint8Array): string;
  /** Returns all exports of the file. */
  load(path: string, done: Done<readonly unknown[]>): void;
  /** Returns the modules that the file exports, without running it in this thread. */
  check(path: string, done: Done<readonly { readonly name: string }[]>): void;
};

export type ModuleSyncPorts = {
  readonly registry: Pick<Registry, 'range' | 'watch'>;
  readonly clock: Clock;
  readonly files: Files;
  readonly modules: ModuleCatalog;
  readonly bundles: BundleImporter;
  readonly emit: (event: { readonly kind: string } & Readonly<Record<string, unknown>>) => void;
};

type ListedVersion = ModuleVersion & { readonly name: string };
type Failed = { readonly attempts: number; readonly retryAtMs: number };

const directory = 'modules';
const retryMsMin = 1_000;
const retryMsMax = 60_000;
const checksMax = 4;

export class ModuleSync {
  readonly #ports: ModuleSyncPorts;
  readonly #reader: ModuleReader;
  #records = new Map<string, ModuleRecord>();
  readonly #failed = new Map<string, Failed>();
  /** Files of bundles under check; no record may list them yet. */
  readonly #checking = new Set<string>();
  #isBusy = false;
  #isCleanedUp = false;
  #isOpen = false;
  #stopInformer: Cancel = () => {};
  #cancelRetry: Cancel = () => {};

  constructor(ports: ModuleSyncPorts) {
    this.#ports = ports;
    this.#reader = new ModuleReader(ports.registry, ports.clock);
  }

  start(): void {
    this.#isOpen = true;
    const { registry, clock } = this.#ports;
    this.#stopInformer = startInformer(registry, clock, moduleRanges.records, {
      loaded: (entries) => {
        this.#records = new Map();
        for (const { key, value } of entries) this.#record(key, value);
        this.#onRecordsChanged();
      },
      changed: (changes) => {
        for (const change of changes) {
          if (change.kind === 'put') this.#record(change.entry.key, change.entry.value);
          else this.#records.delete(moduleOfKey(change.key) ?? '');
        }
        this.#onRecordsChanged();
      },
    });
  }

  stop(): void {
    this.#isOpen = false;
    this.#stopInformer();
    this.#cancelRetry();
  }

  /**
   * Imports a bundle that is not deployed yet in a separate thread. Returns the name of its only module, or checks
   * that it exports the module `wanted`; BUNDLE_INVALID otherwise.
   */
  check(
    code: Uint8Array,
    wanted: string | undefined,
    done: Done<{ readonly name: string; readonly sha256: string }>,
  ): void {
    const { files, bundles } = this.#ports;
    if (code.length > moduleLimits.bundleBytesMax)
      return done(
        failure('TOO_LARGE', `the bundle has ${code.length} bytes, the limit is ${moduleLimits.bundleBytesMax}`, 'no'),
      );
    if (this.#checking.size >= checksMax)
      return done(failure('CAPACITY', `${checksMax} bundles are being checked already`));
    const sha256 = bundles.sha256(code);
    const path = pathOf(sha256);
    this.#checking.add(path);
    const end = (outcome: Outcome<string>): void => {
      this.#checking.delete(path);
      done(outcome.ok ? success({ name: outcome.value, sha256 }) : outcome);
      if (outcome.ok) return;
      this.#isCleanedUp = false;
      this.#next();
    };
    files.replace(path, code, (written) => {
      if (!written.ok) return end(written);
      bundles.check(path, (outcome) => end(outcome.ok ? selectModule(outcome.value, wanted) : outcome));
    });
  }

  #record(key: string, value: Uint8Array): void {
    const name = moduleOfKey(key);
    const record = readModule(value);
    if (name !== undefined && record !== undefined) this.#records.set(name, record);
  }

  #onRecordsChanged(): void {
    this.#isCleanedUp = false;
    const listed = new Set(this.#listedVersions().map(nameOf));
    for (const name of this.#failed.keys()) if (!listed.has(name)) this.#failed.delete(name);
    this.#next();
  }

  #listedVersions(): readonly ListedVersion[] {
    const all: ListedVersion[] = [];
    for (const [name, { versions }] of this.#records) for (const one of versions) all.push({ name, ...one });
    return all;
  }

  #next(): void {
    if (this.#isBusy || !this.#isOpen) return;
    this.#cancelRetry();
    const { clock, modules } = this.#ports;
    const missing = this.#listedVersions().filter(({ name, version }) => modules.get(name, version) === undefined);
    const nowMs = clock.nowMs();
    const dueMs = (one: ListedVersion): number => this.#failed.get(nameOf(one))?.retryAtMs ?? 0;
    const ready = missing.filter((one) => dueMs(one) <= nowMs);
    const next = ready.toSorted((a, b) => b.deployedWallMs - a.deployedWallMs || b.version - a.version)[0];
    if (next !== undefined) return this.#load(next);
    if (!this.#isCleanedUp) return this.#cleanUp();
    if (missing.length === 0) return;
    this.#cancelRetry = clock.schedule(Math.min(...missing.map(dueMs)) - nowMs, () => this.#next());
  }

  #load(listed: ListedVersion): void {
    const { files, bundles } = this.#ports;
    const path = pathOf(listed.sha256);
    this.#isBusy = true;
    files.read(path, (read) => {
      const isStored = read.ok && read.value !== undefined && bundles.sha256(read.value) === listed.sha256;
      if (isStored) this.#import(listed, path);
      else this.#fetch(listed, path);
    });
  }

  #fetch(listed: ListedVersion, path: string): void {
    const { files, bundles } = this.#ports;
    this.#reader.code(listed.name, listed, (outcome) => {
      if (!outcome.ok) return this.#onLoaded(listed, outcome);
      if (bundles.sha256(outcome.value) !== listed.sha256)
        return this.#onLoaded(listed, failure('BUNDLE_INVALID', 'the code in the registry does not match its hash'));
      files.replace(path, outcome.value, (written) => {
        if (written.ok) this.#import(listed, path);
        else this.#onLoaded(listed, written);
      });
    });
  }

  #import(listed: ListedVersion, path: string): void {
    this.#ports.bundles.load(path, (outcome) => {
      this.#onLoaded(listed, outcome.ok ? this.#add(listed, outcome.value) : outcome);
    });
  }

  #add({ name, version }: ListedVersion, exported: readonly unknown[]): Outcome<unknown> {
    const definition = exported.find((one): one is ModuleDefinition => isModule(one) && one.name === name);
    if (definition === undefined) return failure('BUNDLE_INVALID', `the bundle does not export a module ${name}`);
    try {
      this.#ports.modules.add(definition, version);
    } catch (error) {
      return failure('CAPACITY', error instanceof Error ? error.message : undefined);
    }
    return success(undefined);
  }

  #onLoaded(listed: ListedVersion, outcome: Outcome<unknown>): void {
    const { clock, emit } = this.#ports;
    const { name: module, version, bytes } = listed;
    this.#isBusy = false;
    if (!this.#isOpen) return;
    if (outcome.ok) {
      this.#failed.delete(nameOf(listed));
      emit({ kind: 'module.loaded', module, version, bytes });
    } else {
      const attempts = (this.#failed.get(nameOf(listed))?.attempts ?? 0) + 1;
      const retryDelayMs = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(10, attempts - 1));
      this.#failed.set(nameOf(listed), { attempts, retryAtMs: clock.nowMs() + retryDelayMs });
      const { code, message: reason } = outcome.error;
      emit({ kind: 'module.failed', module, version, code, reason });
    }
    this.#next();
  }

  /** Removes versions and files that no record lists. */
  #cleanUp(): void {
    this.#isCleanedUp = true;
    const { files, modules } = this.#ports;
    for (const name of modules.names()) {
      const recorded = this.#records.get(name)?.versions.map(({ version }) => version) ?? [];
      for (const version of modules.versions(name)) {
        if (version > 0 && !recorded.includes(version)) modules.remove(name, version);
      }
    }
    this.#isBusy = true;
    files.list(directory, (outcome) => {
      this.#isBusy = false;
      if (!this.#isOpen) return;
      const kept = new Set([...this.#listedVersions().map(({ sha256 }) => pathOf(sha256)), ...this.#checking]);
      for (const file of outcome.ok ? outcome.value : []) {
        const path = `${directory}/${file}`;
        if (!kept.has(path)) files.remove(path, () => {});
      }
      this.#next();
    });
  }
}

function selectModule(exported: readonly { readonly name: string }[], wanted: string | undefined): Outcome<string> {
  const names = [...new Set(exported.map(({ name }) => name))];
  const [only, ...more] = wanted === undefined ? names : names.filter((name) => name === wanted);
  if (only !== undefined && more.length === 0) return success(only);
  if (names.length === 0) return failure('BUNDLE_INVALID', 'the bundle exports no module');
  const which = wanted === undefined ? 'name one of them' : `none of them is ${wanted}`;
  return failure('BUNDLE_INVALID', `the bundle exports the modules ${names.toSorted().join(', ')}: ${which}`);
}

function pathOf(sha256: string): string {
  return `${directory}/${sha256}.mjs`;
}

function nameOf({ name, version }: ListedVersion): string {
  return `${name}/${version}`;
}
