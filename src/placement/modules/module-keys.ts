/**
 * Builds and parses keys under `/modules/`, `/module-parts/` and `/modules-loaded/`. Code has its own prefix, so a
 * watch of the records carries no code.
 *
 *   /modules/{name}                          the deployed versions
 *   /module-parts/{name}/{version}/{part}    the code of a version, in parts; 8 digits keep the versions in order
 *   /modules-loaded/{node}                   the modules that a registered node has loaded
 */
import { RemusterError } from '../../base/errors.ts';
import { type NodeId, namePattern, parseNodeId } from '../../base/ids.ts';
import { type KeyRange, withPrefix } from '../../base/registry.ts';

const versionDigits = 8;
export const moduleVersionMax = 10 ** versionDigits - 1;

const recordPrefix = '/modules/';
const loadedPrefix = '/modules-loaded/';

export const moduleRanges = {
  records: withPrefix(recordPrefix),
  loaded: withPrefix(loadedPrefix),
  /** The parts of the versions from `first` up to, but not including, `end`. */
  parts: (name: string, first: number, end = first + 1): KeyRange => ({
    from: `${partsPrefix(name)}${digits(first)}/`,
    to: `${partsPrefix(name)}${digits(end)}/`,
  }),
} as const;

export function moduleKey(name: string): string {
  return `${recordPrefix}${checked(name)}`;
}

/** Undefined for any other key than one of `moduleKey`. */
export function moduleOfKey(key: string): string | undefined {
  const name = key.startsWith(recordPrefix) ? key.slice(recordPrefix.length) : '';
  return namePattern.test(name) ? name : undefined;
}

export function modulePartKey(name: string, version: number, part: number): string {
  return `${partsPrefix(name)}${digits(version)}/${part}`;
}

export function loadedModulesKey(node: NodeId): string {
  return `${loadedPrefix}${parseNodeId(node)}`;
}

/** Undefined for any other key than one of `loadedModulesKey`. */
export function nodeOfLoadedModulesKey(key: string): NodeId | undefined {
  try {
    return key.startsWith(loadedPrefix) ? parseNodeId(key.slice(loadedPrefix.length)) : undefined;
  } catch {
    return undefined;
  }
}

function partsPrefix(name: string): string {
  return `/module-parts/${checked(name)}/`;
}

function digits(version: number): string {
  return String(version).padStart(versionDigits, '0');
}

function checked(name: string): string {
  if (typeof name === 'string' && namePattern.test(name)) return name;
  throw new RemusterError('BAD_ARGUMENT', `${JSON.stringify(name)} cannot be the name of a module`);
}
