/** The console's files: ready in a package, bundled in memory in a checkout. Writes nothing. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RemusterError } from '../../base/errors.ts';

export type ConsoleFile = { readonly name: string; readonly contentType: string; readonly text: string };

const built = fileURLToPath(new URL('../../console/', import.meta.url));
const sources = fileURLToPath(new URL('../../../console/', import.meta.url));

const contentTypes = {
  'index.html': 'text/html; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'console.css': 'text/css; charset=utf-8',
  'console.svg': 'image/svg+xml',
} as const;
type Name = keyof typeof contentTypes;
const consoleFileNames = Object.keys(contentTypes) as readonly Name[];

let made: Promise<ReadonlyMap<string, string>> | undefined;

export async function consoleFile(name: string): Promise<ConsoleFile> {
  const known = consoleFileNames.find((one) => one === name);
  if (known === undefined) throw new RemusterError('UNKNOWN_KEY', 'the console has no such file');
  made ??= existsSync(join(built, 'index.html')) ? readBuilt() : buildConsole();
  // What failed once (a file that is being written) may succeed later.
  made.catch(() => (made = undefined));
  return { name, contentType: contentTypes[known], text: (await made).get(known) ?? '' };
}

async function readBuilt(): Promise<ReadonlyMap<string, string>> {
  return new Map(await Promise.all(consoleFileNames.map(async (name) => [name, await text(built, name)] as const)));
}

/** From the sources of a checkout. */
export async function buildConsole(): Promise<ReadonlyMap<string, string>> {
  const plotStyle = createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css');
  const [code, page, style, plot, icon] = await Promise.all([
    bundled(),
    text(sources, 'index.html'),
    text(sources, 'style.css'),
    readFile(plotStyle, 'utf8'),
    text(sources, 'icon.svg'),
  ]);
  return new Map([
    ['index.html', page],
    ['console.js', code],
    ['console.css', `${plot}\n${style}`],
    ['console.svg', icon],
  ]);
}

async function bundled(): Promise<string> {
  const { rolldown } = await import('rolldown');
  const bundle = await rolldown({
    input: join(sources, 'main.tsx'),
    cwd: sources,
    platform: 'browser',
    tsconfig: join(sources, 'tsconfig.json'),
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
