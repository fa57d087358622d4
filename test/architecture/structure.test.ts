/**
 * The rules for the structure of folders, as tests. Every rule is first shown a planted violation that it must find,
 * then the real files, and reports how many it looked at. Known violations are listed; the list only shrinks.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it, type TestContext } from 'node:test';

import type { Source } from '../support/rules/dependencies.ts';
import {
  crowdedFolders,
  exportedNames,
  folderFilesMax,
  importCycles,
  knownViolations,
  repeatedExports,
  type StructureViolation,
  unexpected,
} from '../support/rules/structure-rules.ts';

const root = resolve(import.meta.dirname, '../..');
const codeFolders = ['src', 'test/support', 'test/simulation', 'test/fakes', 'bench', 'scripts', 'console'];

/** The source files below the folders: no tests, no data. Fails if there are none. */
function sourcesOf(context: TestContext, folders: readonly string[]): readonly Source[] {
  const patterns = folders.map((folder) => `${folder}/**/*.{ts,tsx,mts,js,mjs,cjs}`);
  const paths = globSync(patterns, { cwd: root }).map((path) => path.replaceAll('\\', '/'));
  const sources = paths.filter((path) => !/\.test\.\w+$/.test(path)).toSorted();
  for (const folder of folders)
    assert.ok(
      sources.some((path) => path.startsWith(`${folder}/`)),
      `looked at no source file of ${folder}`,
    );
  context.diagnostic(`looked at ${sources.length} source files`);
  return sources.map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

function keysOf(violations: readonly StructureViolation[]): readonly string[] {
  return violations.map(({ key }) => key);
}

describe('a folder', () => {
  it(`holds at most ${folderFilesMax} source files at one level`, (context) => {
    const planted = Array.from({ length: folderFilesMax + 1 }, (_, at) => ({ path: `src/base/f${at}.ts`, text: '' }));
    assert.deepEqual(keysOf(crowdedFolders(planted)), ['src/base'], 'the planted violation');
    assert.deepEqual(crowdedFolders([...planted.slice(1), { path: 'src/base/deep/a.ts', text: '' }]), []);
    const found = crowdedFolders(sourcesOf(context, codeFolders));
    assert.deepEqual(unexpected(found, knownViolations.crowdedFolders), []);
  });

  it('of src is in no import cycle with other folders', (context) => {
    const planted: readonly Source[] = [
      { path: 'src/a/a.ts', text: "import type { B } from './deep/b.ts';\n" },
      { path: 'src/a/deep/b.ts', text: "export { c } from '../../c/c.ts';\n" },
      { path: 'src/c/c.ts', text: "const a = await import('../a/a.ts');\n" },
      { path: 'src/d/d.ts', text: "import { a } from '../a/a.ts';\nimport { e } from './e.ts';\n" },
    ];
    assert.deepEqual(keysOf(importCycles(planted)), ['src/a', 'src/a/deep', 'src/c'], 'the planted violation');
    assert.match(importCycles(planted)[0]?.text ?? '', /^src\/a is in an import cycle: src\/a\/a\.ts imports \.\/deep/);
    assert.deepEqual(importCycles(planted.slice(1)), []);
    const found = importCycles(sourcesOf(context, ['src']));
    assert.deepEqual(unexpected(found, knownViolations.cyclicFolders), []);
  });
});

describe('an exported name', () => {
  it('is read from declarations and export lists, not from re-exports', () => {
    const names = (text: string): readonly string[] => exportedNames({ path: 'src/a.ts', text });
    assert.deepEqual(names('export const a = 1;\nexport async function b() {}\nexport abstract class C {}\n'), [
      ...['a', 'b', 'C'],
    ]);
    assert.deepEqual(
      names('export type D = 1;\nexport interface E {}\nconst f = 1;\nexport { f as g, type D as H };\n'),
      [...['D', 'E', 'g', 'H']],
    );
    assert.deepEqual(names("import { a } from './a.ts';\nexport { a };\nexport { b } from './b.ts';\n"), []);
    assert.deepEqual(names('/** export const a = 1; */\nfunction b() {}\n'), []);
  });

  it('exists once in src', (context) => {
    const planted: readonly Source[] = [
      { path: 'src/a.ts', text: 'export const size = 1;\nexport function main() {}\n' },
      { path: 'src/b/b.ts', text: 'export type size = 1;\nexport function main() {}\n' },
      { path: 'src/runner/process/package-stub.ts', text: 'export const size = 1;\n' },
    ];
    assert.deepEqual(keysOf(repeatedExports(planted)), ['size'], 'the planted violation');
    const sources = sourcesOf(context, ['src']);
    const names = sources.flatMap(exportedNames);
    assert.ok(names.length > 0, 'looked at no exported name');
    context.diagnostic(`looked at ${names.length} exported names`);
    assert.deepEqual(unexpected(repeatedExports(sources), knownViolations.repeatedExports), []);
  });
});

describe('the list of known violations', () => {
  it('refuses a new violation and an entry that no longer occurs', () => {
    const found = [{ key: 'a', text: 'a is wrong' }];
    assert.deepEqual(unexpected(found, ['a']), []);
    assert.deepEqual(unexpected(found, []), ['a is wrong']);
    assert.deepEqual(unexpected([], ['a']), ['a is repaired: remove it from knownViolations']);
  });
});
