/**
 * `npm run build`: builds JavaScript, types and console into dist. A new build replaces the old one only after all of
 * its entries could be imported.
 */
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { buildConsole } from '../src/io/bundle/console-files.ts';
import { projectRoot, runTool } from './testing/stage.ts';

type Exports = Readonly<Record<string, string | { readonly types: string; readonly default: string }>>;

const staging = join(projectRoot, '.cache', `build-${process.pid}`);
const dist = join(projectRoot, 'dist');

async function runOrThrow(command: string, args: readonly string[]): Promise<void> {
  const { code, output } = await runTool(command, args);
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}\n${output}`);
}

async function build(): Promise<void> {
  await runOrThrow('tsc', ['-p', 'tsconfig.build.json', '--outDir', staging]);
  mkdirSync(join(staging, 'console'), { recursive: true });
  for (const [name, text] of await buildConsole()) writeFileSync(join(staging, 'console', name), text);
  const { exports } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as { exports: Exports };
  for (const entry of Object.values(exports)) {
    if (typeof entry === 'string') continue;
    const [types, script] = [entry.types, entry.default].map((file) => file.replace('./dist', staging));
    if (!existsSync(types ?? '')) throw new Error(`${entry.types} was not emitted`);
    await runOrThrow(process.execPath, ['--input-type=module', '--eval', `await import(${JSON.stringify(script)})`]);
  }
}

mkdirSync(join(projectRoot, '.cache'), { recursive: true });
try {
  await build();
  rmSync(dist, { recursive: true, force: true });
  renameSync(staging, dist);
  console.log(`built ${globSync('**/*.js', { cwd: dist }).length} modules in dist`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(staging, { recursive: true, force: true });
}
