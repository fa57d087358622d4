/**
 * Fetches, verifies and imports deployed modules, newest first; drops what the registry no longer has. Retries with
 * backoff.
 *
 *   registry --record--> file with that hash? --no--> parts --hash--> file --> import --> modules known
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

/** How code comes into the process; io/bundle/deployed-bundles.ts in the real world. Paths are those of the files. */
export type BundleImporter = {
  sha256(bytes: Uint8Array): string;
  /** Everything that the file exports. */
  load(path: string, done: Done<readonly unknown[]>): void;
  /** The modules that it exports, without running it in this process. */
  check(path: string, done: Done<readonly { readonly name: string }[]>): void;
};

export type ModuleSyncPorts = {
  readonly registry: Pick<Registry, 'range' | 'watch'>;
  readonly clock: Clock;
  readonly files: Files;
  readonly modules: ModuleCatalog;
  readonly bundles: BundleImporter;
  readonly tell: (event: { readonly kind: string } & Readonly<Record<string, unknown>>) => void;
};

type Wanted = ModuleVersion & { readonly name: string };
type Failed = { readonly attempts: number; readonly againMs: number };

const directory = 'modules';
const retryMsMin = 1_000;
const retryMsMax = 60_000;
const checksMax = 4;

export class ModuleSync {
  readonly #ports: ModuleSyncPorts;
  readonly #reader: ModuleReader;
  #records = new Map<string, ModuleRecord>();
  readonly #failed = new Map<string, Failed>();
  /** Files of code that is being tried, and may be in no record yet. */
  readonly #checking = new Set<string>();
  #isBusy = false;
  #isTidy = false;
  #isOpen = false;
  #unfollow: Cancel = () => {};
  #cancelLook: Cancel = () => {};

  constructor(ports: ModuleSyncPorts) {
    this.#ports = ports;
    this.#reader = new ModuleReader(ports.registry, ports.clock);
  }

  start(): void {
    this.#isOpen = true;
    const { registry, clock } = this.#ports;
    this.#unfollow = startInformer(registry, clock, moduleRanges.records, {
      loaded: (entries) => {
        this.#records = new Map();
        for (const { key, value } of entries) this.#note(key, value);
        this.#changed();
      },
      changed: (changes) => {
        for (const change of changes) {
          if (change.kind === 'put') this.#note(change.entry.key, change.entry.value);
          else this.#records.delete(moduleOfKey(change.key) ?? '');
        }
        this.#changed();
      },
    });
  }

  stop(): void {
    this.#isOpen = false;
    this.#unfollow();
    this.#cancelLook();
  }

  /**
   * Imports code that was not deployed yet, where it can do no harm. The name of the module in it, or that which is
   * wanted; BUNDLE_INVALID when there is no such module.
   */
  check(
    code: Uint8Array,
    wanted: string | undefined,
    done: Done<{ readonly name: string; readonly sha256: string }>,
  ): void {
    const { files, bundles } = this.#ports;
    if (code.length > moduleLimits.bundleBytesMax)
      return done(failure('TOO_LARGE', `a bundle has at most ${moduleLimits.bundleBytesMax} bytes`, 'no'));
    if (this.#checking.size >= checksMax) return done(failure('CAPACITY', 'other bundles are being tried'));
    const sha256 = bundles.sha256(code);
    const path = pathOf(sha256);
    this.#checking.add(path);
    const end = (outcome: Outcome<string>): void => {
      this.#checking.delete(path);
      done(outcome.ok ? success({ name: outcome.value, sha256 }) : outcome);
      if (outcome.ok) return;
      this.#isTidy = false;
      this.#look();
    };
    files.replace(path, code, (written) => {
      if (!written.ok) return end(written);
      bundles.check(path, (outcome) => end(outcome.ok ? chosen(outcome.value, wanted) : outcome));
    });
  }

  #note(key: string, value: Uint8Array): void {
    const name = moduleOfKey(key);
    const record = readModule(value);
    if (name !== undefined && record !== undefined) this.#records.set(name, record);
  }

  #changed(): void {
    this.#isTidy = false;
    const wanted = new Set(this.#all().map(nameOf));
    for (const name of this.#failed.keys()) if (!wanted.has(name)) this.#failed.delete(name);
    this.#look();
  }

  #all(): readonly Wanted[] {
    const all: Wanted[] = [];
    for (const [name, { versions }] of this.#records) for (const one of versions) all.push({ name, ...one });
    return all;
  }

  #look(): void {
    if (this.#isBusy || !this.#isOpen) return;
    this.#cancelLook();
    const { clock, modules } = this.#ports;
    const missing = this.#all().filter(({ name, version }) => modules.get(name, version) === undefined);
    const nowMs = clock.nowMs();
    const dueMs = (one: Wanted): number => this.#failed.get(nameOf(one))?.againMs ?? 0;
    const ready = missing.filter((one) => dueMs(one) <= nowMs);
    const next = ready.toSorted((a, b) => b.deployedWallMs - a.deployedWallMs || b.version - a.version)[0];
    if (next !== undefined) return this.#begin(next);
    if (!this.#isTidy) return this.#tidy();
    if (missing.length === 0) return;
    this.#cancelLook = clock.schedule(Math.min(...missing.map(dueMs)) - nowMs, () => this.#look());
  }

  #begin(wanted: Wanted): void {
    const { files, bundles } = this.#ports;
    const path = pathOf(wanted.sha256);
    this.#isBusy = true;
    files.read(path, (read) => {
      const isThere = read.ok && read.value !== undefined && bundles.sha256(read.value) === wanted.sha256;
      if (isThere) this.#import(wanted, path);
      else this.#fetch(wanted, path);
    });
  }

  #fetch(wanted: Wanted, path: string): void {
    const { files, bundles } = this.#ports;
    this.#reader.code(wanted.name, wanted, (outcome) => {
      if (!outcome.ok) return this.#ended(wanted, outcome);
      if (bundles.sha256(outcome.value) !== wanted.sha256)
        return this.#ended(wanted, failure('BUNDLE_INVALID', 'what the registry has does not match its hash'));
      files.replace(path, outcome.value, (written) => {
        if (written.ok) this.#import(wanted, path);
        else this.#ended(wanted, written);
      });
    });
  }

  #import(wanted: Wanted, path: string): void {
    this.#ports.bundles.load(path, (outcome) => {
      this.#ended(wanted, outcome.ok ? this.#add(wanted, outcome.value) : outcome);
    });
  }

  #add({ name, version }: Wanted, exported: readonly unknown[]): Outcome<unknown> {
    const definition = exported.find((one): one is ModuleDefinition => isModule(one) && one.name === name);
    if (definition === undefined) return failure('BUNDLE_INVALID', `it does not export a module ${name}`);
    try {
      this.#ports.modules.add(definition, version);
    } catch (error) {
      return failure('CAPACITY', error instanceof Error ? error.message : undefined);
    }
    return success(undefined);
  }

  #ended(wanted: Wanted, outcome: Outcome<unknown>): void {
    const { clock, tell } = this.#ports;
    const { name: module, version, bytes } = wanted;
    this.#isBusy = false;
    if (!this.#isOpen) return;
    if (outcome.ok) {
      this.#failed.delete(nameOf(wanted));
      tell({ kind: 'module.loaded', module, version, bytes });
    } else {
      const attempts = (this.#failed.get(nameOf(wanted))?.attempts ?? 0) + 1;
      const waitMs = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(10, attempts - 1));
      this.#failed.set(nameOf(wanted), { attempts, againMs: clock.nowMs() + waitMs });
      const { code, message: reason } = outcome.error;
      tell({ kind: 'module.failed', module, version, code, reason });
    }
    this.#look();
  }

  /** Forgets versions and removes files that no record names. */
  #tidy(): void {
    this.#isTidy = true;
    const { files, modules } = this.#ports;
    for (const name of modules.names()) {
      const listed = this.#records.get(name)?.versions.map(({ version }) => version) ?? [];
      for (const version of modules.versions(name)) {
        if (version > 0 && !listed.includes(version)) modules.remove(name, version);
      }
    }
    this.#isBusy = true;
    files.list(directory, (outcome) => {
      this.#isBusy = false;
      if (!this.#isOpen) return;
      const kept = new Set([...this.#all().map(({ sha256 }) => pathOf(sha256)), ...this.#checking]);
      for (const file of outcome.ok ? outcome.value : []) {
        const path = `${directory}/${file}`;
        if (!kept.has(path)) files.remove(path, () => {});
      }
      this.#look();
    });
  }
}

function chosen(exported: readonly { readonly name: string }[], wanted: string | undefined): Outcome<string> {
  const names = [...new Set(exported.map(({ name }) => name))];
  const [only, ...more] = wanted === undefined ? names : names.filter((name) => name === wanted);
  if (only !== undefined && more.length === 0) return success(only);
  if (names.length === 0) return failure('BUNDLE_INVALID', 'it exports no module');
  const which = wanted === undefined ? 'say which one, by its name' : `none of them is ${wanted}`;
  return failure('BUNDLE_INVALID', `it exports the modules ${names.toSorted().join(', ')}: ${which}`);
}

function pathOf(sha256: string): string {
  return `${directory}/${sha256}.mjs`;
}

function nameOf({ name, version }: Wanted): string {
  return `${name}/${version}`;
}
