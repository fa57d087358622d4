/**
 * Deploys one version of a module to the registry. An aborted deployment leaves nothing visible. Concurrent deployments
 * get different numbers; if the higher one is published first, the lower one is refused.
 *
 *   reserve a number (record.last) -> write the parts -> publish in record.versions and remove old versions
 */
import { type Done, failure, success, withPossibleEffect } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { registryLimits, type Registry, type RegistryCompare, type RegistryOp } from '../../base/registry.ts';
import { moduleKey, moduleRanges, modulePartKey, moduleVersionMax } from './module-keys.ts';
import { type StoredModule, ModuleReader } from './module-reader.ts';
import {
  encodeModule,
  type ModuleRecord,
  type ModuleVersion,
  moduleLimits,
  newestVersionOf,
} from './module-records.ts';

export type ModuleBundle = { readonly name: string; readonly sha256: string; readonly code: Uint8Array };

export type DeployedModule = ModuleVersion & {
  readonly name: string;
  /** False: the newest version has the same code. */
  readonly deployed: boolean;
};

const timeoutMs = 10_000;
const conflictsMax = 10;

export class ModuleDeployment {
  readonly #registry: Pick<Registry, 'range' | 'transact'>;
  readonly #clock: Clock;
  readonly #reader: ModuleReader;
  readonly #bundle: ModuleBundle;
  readonly #parts: number;
  readonly #done: Done<DeployedModule>;
  #conflicts = 0;
  /** A version number is reserved, and parts may be stored. */
  #hasWritten = false;

  constructor(
    ports: { readonly registry: Pick<Registry, 'range' | 'transact'>; readonly clock: Clock },
    bundle: ModuleBundle,
    done: Done<DeployedModule>,
  ) {
    this.#registry = ports.registry;
    this.#clock = ports.clock;
    this.#reader = new ModuleReader(ports.registry, ports.clock);
    this.#bundle = bundle;
    this.#parts = Math.max(1, Math.ceil(bundle.code.length / moduleLimits.partBytesMax));
    this.#done = (outcome) => {
      if (outcome.ok || !this.#hasWritten) done(outcome);
      else done({ ok: false, error: withPossibleEffect(outcome.error) });
    };
  }

  start(): void {
    this.#reader.list((outcome) => {
      if (!outcome.ok) return this.#done(outcome);
      const { bundleBytesMax, modulesMax, allBytesMax } = moduleLimits;
      const { name, code } = this.#bundle;
      if (code.length > bundleBytesMax)
        return this.#done(
          failure('TOO_LARGE', `the bundle has ${code.length} bytes; at most ${bundleBytesMax} are allowed`, 'no'),
        );
      if (!outcome.value.has(name) && outcome.value.size >= modulesMax)
        return this.#done(failure('CAPACITY', `there are ${modulesMax} modules already, which is the maximum`));
      const bytes = [...outcome.value.values()].reduce((sum, record) => sum + bytesOf(record), 0);
      if (bytes + code.length > allBytesMax)
        return this.#done(failure('CAPACITY', `all modules together would have more than ${allBytesMax} bytes`));
      this.#reserveVersion();
    });
  }

  #reserveVersion(): void {
    this.#readRecord((stored) => {
      const newest = newestVersionOf(stored.record);
      const { name, sha256 } = this.#bundle;
      if (newest?.sha256 === sha256) return this.#done(success({ name, ...newest, deployed: false }));
      const version = stored.record.last + 1;
      if (version > moduleVersionMax) return this.#done(failure('CAPACITY', 'this module has no version numbers left'));
      const record = { ...stored.record, last: version };
      const write = { kind: 'put', key: moduleKey(name), value: encodeModule(record) } as const;
      this.#transact([unchanged(name, stored)], [write], {
        succeeded: () => this.#writePart(version, 0),
        conflict: () => this.#reserveVersion(),
      });
    });
  }

  #writePart(version: number, part: number): void {
    if (part === this.#parts) return this.#publish(version);
    const { name, code } = this.#bundle;
    const { partBytesMax } = moduleLimits;
    const value = code.subarray(part * partBytesMax, (part + 1) * partBytesMax);
    this.#transact([], [{ kind: 'put', key: modulePartKey(name, version, part), value }], {
      succeeded: () => this.#writePart(version, part + 1),
      conflict: () => this.#done(failure('INTERNAL')),
    });
  }

  #publish(version: number): void {
    const { name, sha256, code } = this.#bundle;
    this.#readRecord((stored) => {
      const newest = newestVersionOf(stored.record);
      if (newest !== undefined && newest.version > version)
        return this.#done(failure('PRECONDITION', `version ${newest.version} of ${name} was deployed meanwhile`, 'no'));
      this.#versionsToKeep(stored.record, (used) => {
        const own = { version, sha256, bytes: code.length, parts: this.#parts, deployedWallMs: this.#clock.wallMs() };
        const kept = [...stored.record.versions.filter((old) => used.has(old.version)), own];
        const write = { kind: 'put', key: moduleKey(name), value: encodeModule({ ...stored.record, versions: kept }) };
        const compare = [unchanged(name, stored), ...this.#allParts(version)];
        this.#transact(compare, [write as RegistryOp, ...removals(name, kept)], {
          succeeded: () => this.#done(success({ name, ...own, deployed: true })),
          conflict: () => this.#publish(version),
        });
      });
    });
  }

  /** A concurrent deployment with a higher number may have removed the parts as leftovers. */
  #allParts(version: number): readonly RegistryCompare[] {
    const { name } = this.#bundle;
    return Array.from({ length: this.#parts }, (_, part) => ({
      key: modulePartKey(name, version, part),
      target: 'version' as const,
      is: 'greater' as const,
      than: 0,
    }));
  }

  /** Versions that a pool or a container uses, and the newest unused ones. */
  #versionsToKeep(record: ModuleRecord, then: (used: ReadonlySet<number>) => void): void {
    this.#reader.pools(this.#bundle.name, (outcome) => {
      if (!outcome.ok) return this.#done(outcome);
      const used = new Set(outcome.value.map((pool) => pool.record.moduleVersion));
      const names = outcome.value.map((pool) => pool.name);
      const next = (): void => {
        const pool = names.shift();
        if (pool === undefined) return then(withNewest(record, used));
        const take = (_: number, container: { readonly moduleVersion: number }): void => {
          used.add(container.moduleVersion);
        };
        this.#reader.containers(pool, take, (read) => (read.ok ? next() : this.#done(read)));
      };
      next();
    });
  }

  #readRecord(then: (stored: StoredModule) => void): void {
    this.#reader.find(this.#bundle.name, (outcome) => {
      if (outcome.ok) then(outcome.value);
      else this.#done(outcome);
    });
  }

  #transact(
    compare: readonly RegistryCompare[],
    then: readonly RegistryOp[],
    ends: { readonly succeeded: () => void; readonly conflict: () => void },
  ): void {
    this.#registry.transact({ compare, then, otherwise: [] }, { timeoutMs }, (outcome) => {
      if (!outcome.ok) return this.#done(outcome);
      this.#hasWritten ||= outcome.value.succeeded;
      if (outcome.value.succeeded) return ends.succeeded();
      this.#conflicts += 1;
      if (this.#conflicts > conflictsMax)
        return this.#done(
          failure(
            'PRECONDITION',
            `${this.#bundle.name} is being deployed by other callers at the same time: try again`,
            'no',
          ),
        );
      ends.conflict();
    });
  }
}

function unchanged(name: string, { modRevision }: StoredModule): RegistryCompare {
  return { key: moduleKey(name), target: 'modRevision', is: 'equal', than: modRevision };
}

function bytesOf({ versions }: ModuleRecord): number {
  return versions.reduce((sum, version) => sum + version.bytes, 0);
}

function withNewest({ versions }: ModuleRecord, used: ReadonlySet<number>): ReadonlySet<number> {
  const unused = versions.map(({ version }) => version).filter((version) => !used.has(version));
  return new Set([...used, ...unused.slice(-moduleLimits.unusedKeptMax)]);
}

/** The parts of all versions below the new one that are not kept, including those of aborted deployments. */
function removals(name: string, kept: readonly ModuleVersion[]): readonly RegistryOp[] {
  const ops: RegistryOp[] = [];
  let first = 1;
  for (const { version } of kept) {
    if (version > first) ops.push({ kind: 'delete', range: moduleRanges.parts(name, first, version) });
    first = version + 1;
  }
  return ops.slice(0, registryLimits.transactionOpsMax - 1);
}
