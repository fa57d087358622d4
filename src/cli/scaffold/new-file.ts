/** Writes starter files where none exist; never overwrites. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RemusterError } from '../../base/errors.ts';

/** By name, their texts; the result are their paths. PRECONDITION if one of them is there. */
export function writeNewFiles(folder: string, files: Readonly<Record<string, string>>): readonly string[] {
  const paths = Object.keys(files).map((file) => join(folder, file));
  const taken = paths.find((path) => existsSync(path));
  if (taken !== undefined)
    throw new RemusterError('PRECONDITION', `${taken} is there already; nothing was written`, 'no');
  mkdirSync(folder, { recursive: true });
  // `wx`: not even over a file that came into being this very moment.
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text, { flag: 'wx' });
  return paths;
}

/** `my-module` becomes `myModule`; a name that begins with a digit gets a word before it. */
export function identifierOf(name: string, word: string): string {
  const words = name.replaceAll(/[^a-z0-9]+([a-z0-9])?/g, (_, letter: string | undefined) =>
    (letter ?? '').toUpperCase(),
  );
  return /^[0-9]/.test(words) ? `${word}${words}` : words;
}

/** Apart from `from`, so that nobody takes what is written into a file for an import of ours. */
export function quoteSpecifier(specifier: string): string {
  return `'${specifier}'`;
}
