/**
 * Records of deployed module versions and of the modules that each node has loaded, with their limits. A version number
 * is never used twice.
 */
import { recordFieldsOf } from '../../registry/json-record.ts';

export type ModuleVersion = {
  readonly version: number;
  /** SHA-256 of the code, in hexadecimal digits. */
  readonly sha256: string;
  readonly bytes: number;
  /** Number of parts in the registry. */
  readonly parts: number;
  /** For display only. */
  readonly deployedWallMs: number;
};

export type ModuleRecord = {
  /** The highest number ever reserved, also by a deployment that was aborted. */
  readonly last: number;
  /** In ascending order. */
  readonly versions: readonly ModuleVersion[];
};

/** Loaded versions by module name. */
export type LoadedModules = ReadonlyMap<string, readonly number[]>;

export const moduleLimits = {
  bundleBytesMax: 4_194_304,
  partBytesMax: 524_288,
  /** How many of the newest unused versions are kept. */
  unusedKeptMax: 5,
  modulesMax: 100,
  /** Of all modules together: every manager holds the whole registry in memory. */
  allBytesMax: 33_554_432,
} as const;

const encoder = new TextEncoder();

export function newestVersionOf(record: ModuleRecord | undefined): ModuleVersion | undefined {
  return record?.versions.at(-1);
}

export function encodeModule(record: ModuleRecord): Uint8Array {
  return encoder.encode(JSON.stringify(record));
}

export function readModule(value: Uint8Array): ModuleRecord | undefined {
  const { last, versions } = recordFieldsOf(value) ?? {};
  if (!isCount(last) || !Array.isArray(versions) || !versions.every(isVersion)) return undefined;
  return { last, versions };
}

export function encodeLoadedModules(loaded: LoadedModules): Uint8Array {
  return encoder.encode(JSON.stringify(Object.fromEntries(loaded)));
}

export function readLoadedModules(value: Uint8Array): LoadedModules {
  const rows = Object.entries(recordFieldsOf(value) ?? {});
  return new Map(
    rows.filter((row): row is [string, number[]] => {
      const [, versions] = row;
      return Array.isArray(versions) && versions.every(isCount);
    }),
  );
}

function isVersion(value: unknown): value is ModuleVersion {
  if (typeof value !== 'object' || value === null) return false;
  const { version, sha256, bytes, parts, deployedWallMs } = value as Partial<ModuleVersion>;
  const isHash = typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256);
  return isHash && isCount(version) && isCount(bytes) && isCount(parts) && typeof deployedWallMs === 'number';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
