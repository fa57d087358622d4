/** Finds and reads the options file. Two candidates in one folder are an error. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RemusterError } from '../../base/errors.ts';
import type { OptionSources } from '../../node/options/options.ts';

const candidates = ['remuster.config.ts', 'remuster.config.yaml', 'remuster.config.yml', 'remuster.config.json'];
const fileBytesMax = 1_048_576;

export async function loadConfigFile(named: string | undefined, folder: string): Promise<OptionSources['file']> {
  const path = named ?? onlyOneOf(candidates.filter((candidate) => existsSync(resolve(folder, candidate))));
  if (path === undefined) return undefined;
  const values = await contentOf(resolve(folder, path), path);
  if (typeof values !== 'object' || values === null || Array.isArray(values)) {
    throw new RemusterError('BAD_ARGUMENT', `${path} must hold one object of options`);
  }
  return { path, values: { ...values } };
}

/** Two files that both claim to be the configuration are a trap; the one that is read would be luck. */
function onlyOneOf(found: readonly string[]): string | undefined {
  if (found.length < 2) return found[0];
  throw new RemusterError('BAD_ARGUMENT', `${found.join(' and ')} are both here; remove one or name one with --config`);
}

async function contentOf(path: string, shown: string): Promise<unknown> {
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
      `cannot read ${shown}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
