/** Finds and reads the options file. Two candidates in one folder are an error, never a silent choice. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RemusterError } from '../../base/errors.ts';
import type { OptionSources } from '../../node/options/options.ts';

const candidates = ['remuster.config.ts', 'remuster.config.yaml', 'remuster.config.yml', 'remuster.config.json'];
const fileBytesMax = 1_048_576;

export async function loadConfigFile(configFile: string | undefined, folder: string): Promise<OptionSources['file']> {
  const path = configFile ?? onlyOneOf(candidates.filter((candidate) => existsSync(resolve(folder, candidate))));
  if (path === undefined) return undefined;
  const values = await readValues(resolve(folder, path), path);
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new RemusterError('BAD_ARGUMENT', `${path} must contain one object of options`);
  }
  return { path, values: { ...values } };
}

function onlyOneOf(found: readonly string[]): string | undefined {
  if (found.length < 2) return found[0];
  throw new RemusterError(
    'BAD_ARGUMENT',
    `${found.join(' and ')} are both in this folder: remove one, or choose one with --config`,
  );
}

async function readValues(path: string, displayPath: string): Promise<unknown> {
  try {
    if (statSync(path).size > fileBytesMax) throw new Error(`larger than ${fileBytesMax} bytes`);
    switch (extname(path)) {
      case '.json':
        return JSON.parse(readFileSync(path, 'utf8'));
      case '.yaml':
      case '.yml': {
        const { parse } = await import('yaml');
        return parse(readFileSync(path, 'utf8')) ?? {};
      }
      case '.ts':
      case '.mts':
      case '.js':
      case '.mjs':
        return ((await import(pathToFileURL(path).href)) as { default?: unknown }).default;
      default:
        throw new Error('its name must end in .ts, .js, .yaml or .json');
    }
  } catch (error) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `cannot read ${displayPath}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
