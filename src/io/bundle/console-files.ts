/** The files of the web console: built ones in a package, bundled in memory in a checkout. Writes no file. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RemusterError } from '../../base/errors.ts';

export type ConsoleFile = { readonly name: string; readonly contentType: string; readonly text: string };

const builtFolder = fileURLToPath(new URL('../../console/', import.meta.url));
const sourceFolder = fileURLToPath(new URL('../../../console/', import.meta.url));

const contentTypes = {
  'index.html': 'text/html; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'console.css': 'text/css; charset=utf-8',
  'console.svg': 'image/svg+xml',
} as const;
type Name = keyof typeof contentTypes;
const consoleFileNames = Object.keys(contentTypes) as readonly Name[];

let files: Promise<ReadonlyMap<string, string>> | undefined;

export async function consoleFile(name: string): Promise<ConsoleFile> {
  const knownName = consoleFileNames.find((one) => one === name);
  if (knownName === undefined)
    throw new RemusterError('UNKNOWN_KEY', `the console has no file ${JSON.stringify(name)}`);
  files ??= existsSync(join(builtFolder, 'index.html')) ? readBuilt() : buildConsole();
  // The next request retries, since a source file may have been read while it was written.
  files.catch(() => (files = undefined));
  return { name, contentType: contentTypes[knownName], text: (await files).get(knownName) ?? '' };
}

async function readBuilt(): Promise<ReadonlyMap<string, string>> {
  const entries = consoleFileNames.map(async (name) => [name, await text(builtFolder, name)] as const);
  return new Map(await Promise.all(entries));
}

/** Builds the console from the sources of a checkout. */
export async function buildConsole(): Promise<ReadonlyMap<string, string>> {
  const plotStyle = createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css');
  const [code, page, style, plot, icon] = await Promise.all([
    bundleCode(),
    text(sourceFolder, 'index.html'),
    text(sourceFolder, 'style.css'),
    readFile(plotStyle, 'utf8'),
    text(sourceFolder, 'icon.svg'),
  ]);
  return new Map([
    ['index.html', page],
    ['console.js', code],
    ['console.css', `${plot}\n${style}`],
    ['console.svg', icon],
  ]);
}

async function bundleCode(): Promise<string> {
  const { rolldown } = await import('rolldown');
  const bundle = await rolldown({
    input: join(sourceFolder, 'main.tsx'),
    cwd: sourceFolder,
    platform: 'browser',
    tsconfig: join(sourceFolder, 'tsconfig.json'),
  });
  try {
    const { output } = await bundle.generate({ format: 'esm', minify: true, codeSplitting: false });
    return output[0].code;
  } finally {
    await bundle.close();
  }
}

async function text(folder: string, name: string): Promise<string> {
  return await readFile(join(folder, name), 'utf8');
}
