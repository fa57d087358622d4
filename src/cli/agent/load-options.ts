/**
 * Collects the sources of a node's options: flags, environment, options file. node/options ranks and validates them.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { namePattern } from '../../base/ids.ts';
import { type ResolvedOptions, resolveOptions } from '../../node/options/options.ts';
import { loadConfigFile } from './config-file.ts';

export async function loadOptions(
  flags: Readonly<Record<string, unknown>>,
  configFile: string | undefined,
): Promise<ResolvedOptions> {
  const file = await loadConfigFile(configFile, process.cwd());
  return resolveOptions({
    flags,
    env: process.env,
    ...(file === undefined ? {} : { file }),
    machine: { name: nameOfThisMachine() },
    readText: (path) => readFileSync(path, 'utf8'),
  });
}

function nameOfThisMachine(): string {
  const name = (hostname().split('.')[0] ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]/g, '-')
    .slice(0, 63);
  return namePattern.test(name) ? name : 'node';
}
