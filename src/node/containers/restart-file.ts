/**
 * Format of a pool manifest in the folder `restart`: YAML that `remuster compose` reads. Below the comment it is also
 * JSON, so a node needs no YAML parser. Pure.
 */
import { namePattern } from '../../base/ids.ts';
import type { PoolRequest } from '../../placement/operations/pool-spec.ts';
import type { PoolRecord } from '../../placement/state/container-records.ts';

export const manifestDirectory = 'restart';

const head =
  '# Written by remuster while the pool exists. Recreates the pool in a cluster that has never had any pool.\n';
const ending = '.yaml';
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

export function manifestPath(pool: string): string {
  return `${manifestDirectory}/${pool}${ending}`;
}

/** Undefined if the file is not a manifest. */
export function poolOfManifest(file: string): string | undefined {
  const pool = file.endsWith(ending) ? file.slice(0, -ending.length) : '';
  return namePattern.test(pool) ? pool : undefined;
}

export function manifestText(name: string, record: PoolRecord): string {
  const { module, containers, copies, durability, restart, params } = record;
  const pool = { name, module, containers, copies, durability, restart, params };
  return `${head}${JSON.stringify({ compose: [pool] }, undefined, 2)}\n`;
}

export function encodeManifest(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Undefined if a node did not write this. The caller validates the pool. */
export function decodeManifest(bytes: Uint8Array): { readonly text: string; readonly pool: PoolRequest } | undefined {
  try {
    const text = decoder.decode(bytes);
    const lines = text.split('\n').filter((line) => !line.startsWith('#'));
    const { compose } = JSON.parse(lines.join('\n')) as { readonly compose: readonly PoolRequest[] };
    const [pool] = compose;
    return pool === undefined || compose.length > 1 ? undefined : { text, pool };
  } catch {
    return undefined;
  }
}
