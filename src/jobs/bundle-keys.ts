/** Where the code of jobs is kept in the registry: cut into parts, which are found and joined in the order of their keys. */
import { type KeyRange, withPrefix } from '../base/registry.ts';

export function bundlePartKey(sha256: string, part: number): string {
  return `${bundlePrefix(sha256)}${String(part).padStart(3, '0')}`;
}

export function bundleParts(sha256: string): KeyRange {
  return withPrefix(bundlePrefix(sha256));
}

function bundlePrefix(sha256: string): string {
  return `/jobs/bundle/${sha256}/`;
}
