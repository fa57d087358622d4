/** Writes starter files where none exist; never overwrites. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { RemusterError } from '../../base/errors.ts';

/** Writes files by name and returns their paths. PRECONDITION if one of them exists. */
export function writeNewFiles(folder: string, files: Readonly<Record<string, string>>): readonly string[] {
  const paths = Object.keys(files).map((file) => join(folder, file));
  const existing = paths.find((path) => existsSync(path));
  if (existing !== undefined)
    throw new RemusterError('PRECONDITION', `${existing} exists already: nothing was written`, 'no');
  mkdirSync(folder, { recursive: true });
  // `wx` fails if a file was created since the check.
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text, { flag: 'wx' });
  return paths;
}

/** `.mts` where Node takes a `.ts` file for CommonJS, as in a folder of `npm init -y`. */
export function sourceExtension(folder: string): '.ts' | '.mts' {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const file = join(at, 'package.json');
    if (existsSync(file)) return /"type"\s*:\s*"commonjs"/.test(readFileSync(file, 'utf8')) ? '.mts' : '.ts';
    if (at === dirname(at)) return '.ts';
  }
}

/** Turns `my-module` into `myModule`; a name that begins with a digit gets `prefix`. */
export function identifierOf(name: string, prefix: string): string {
  const identifier = name.replaceAll(/[^a-z0-9]+([a-z0-9])?/g, (_, letter: string | undefined) =>
    (letter ?? '').toUpperCase(),
  );
  return /^[0-9]/.test(identifier) ? `${prefix}${identifier}` : identifier;
}

/** Quotes the specifier of a generated import: written out, tools would take it for an import of this file. */
export function quoteSpecifier(specifier: string): string {
  return `'${specifier}'`;
}
