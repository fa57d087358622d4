/**
 * The architecture rules, as tests. Every rule is first shown a planted violation that it must find, then the real
 * files. Each reports how many files it looked at, because a rule that looked at no file is always satisfied.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it, type TestContext } from 'node:test';

import { optionsTable } from '../../src/node/options/options-table.ts';
import {
  allowedImports,
  importViolations,
  importsOf,
  isSimulated,
  simulationViolations,
  type Source,
} from '../support/rules/dependencies.ts';
import { hostsInLockfile, type Lockfile, missingFromLockfile } from '../support/rules/lockfile.ts';
import {
  anchorsOf,
  brokenLinks,
  importTableDifferences,
  missingFiles,
  subFolderDifferences,
} from '../support/rules/pages.ts';
import { sourceRules } from '../support/rules/source-rules.ts';

const root = resolve(import.meta.dirname, '../..');

function read(...patterns: string[]): readonly Source[] {
  const paths = globSync(patterns, { cwd: root }).map((path) => path.replaceAll('\\', '/'));
  return paths.toSorted().map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Fails if there are no items; reports their number otherwise. */
function seen<T>(context: TestContext, what: string, items: readonly T[]): readonly T[] {
  assert.ok(items.length > 0, `looked at no ${what}`);
  context.diagnostic(`looked at ${items.length} ${what}`);
  return items;
}

const sources = read('src/**/*.ts', 'test/simulation/**/*.ts', 'test/fakes/*.ts');
const product = sources.filter(({ path }) => path.startsWith('src/') && !path.endsWith('.test.ts'));

describe('dependencies between folders', () => {
  const planted: readonly (readonly [path: string, text: string])[] = [
    ['src/base/a.ts', "import { b } from '../messages/b.ts';"],
    ['src/base/a.ts', "export * from '../io/b.ts';"],
    ['src/messages/a.ts', "const b = await import('../node/b.ts');"],
    ['src/membership/a.ts', "import type { B } from '../node/b.ts';"],
    ['src/membership/a.ts', "import 'node:fs';"],
    ['src/node/a.ts', "import { b } from '../io/b.ts';"],
    ['src/node/a.ts', "import {\n  b,\n} from 'commander';"],
    ['src/io/deep/a.ts', "import { b } from '../../messages/b.ts';"],
    ['src/io/a.ts', "import { b } from 'yaml';"],
    ['src/simulation/a.ts', "import { b } from '../io/b.ts';"],
    ['src/simulation/a.ts', "import { b } from '../cli/b.ts';"],
    ['src/simulation/a.ts', "import { it } from 'node:test';"],
    ['src/cli/a.ts', "import { b } from '../../scripts/b.ts';"],
    ['src/cli/a.ts', "import { b } from './b.js';"],
    ['src/cli/a.ts', "import { b } from './b.test.ts';"],
    ['src/undeclared/a.ts', ''],
  ];
  for (const [path, text] of planted) {
    it(`do not allow ${JSON.stringify(text)} in ${path}`, () => {
      assert.equal(importViolations({ path, text }).length, 1);
    });
  }

  it('admit io imports in the composition root', () => {
    const text = "import { b } from '../io/b.ts'; import 'node:os';";
    assert.deepEqual(importViolations({ path: 'src/node/boot/start-node.ts', text }), []);
  });

  it('ignore an import in a comment and the word in a string', () => {
    assert.deepEqual(importsOf("/** from './a.ts' */\n// import './b.ts'\nimport './c.ts';"), ['./c.ts']);
    assert.deepEqual(importsOf("fieldOf(body, 'from', 'to')"), []);
  });

  it('follow the table', (context) => {
    const imports = seen(context, 'source files', product).flatMap(({ text }) => importsOf(text));
    seen(context, 'imports', imports);
    assert.deepEqual(product.flatMap(importViolations), []);
  });

  it('keep simulated workloads, faults and checkers away from the real world', (context) => {
    const path = 'test/simulation/workloads/a.ts';
    for (const planted of ["import 'node:fs';", "import { b } from '../../../src/io/b.ts';"])
      assert.equal(simulationViolations({ path, text: planted }).length, 1, 'the planted violation');
    const simulated = seen(
      context,
      'simulated files',
      sources.filter((source) => isSimulated(source.path)),
    );
    assert.deepEqual(simulated.flatMap(simulationViolations), []);
  });

  it('have a table in which every folder exists', () => {
    const missing = Object.keys(allowedImports).filter((folder) => !existsSync(join(root, 'src', folder)));
    assert.deepEqual(missing, []);
  });
});

describe('the rules for source files', () => {
  const paragraph = '/** A paragraph that says what this file owns. */\n';
  const planted: readonly string[] = [
    `${paragraph}${'a();\n'.repeat(400)}`,
    'export const a = 1;\n',
    `${paragraph}const a = '\u{e9}';\n`,
    `${paragraph}class A<T> extends Map<T, T> {}\n`,
    `${paragraph}// TODO: later\n`,
    `${paragraph}export default 1;\n`,
    `${paragraph}const now = new Date();\n`,
  ];
  for (const [index, rule] of sourceRules.entries()) {
    it(`find a violation and no other: ${rule.name}`, (context) => {
      const violation = { path: 'src/base/planted.ts', text: planted[index] ?? '' };
      assert.equal(rule.check(violation).length, 1, 'the planted violation');
      assert.deepEqual(rule.check({ path: 'src/base/planted.ts', text: `${paragraph}class A extends Error {}\n` }), []);
      assert.deepEqual(seen(context, 'source files', sources).flatMap(rule.check), []);
    });
  }
});

describe('options', () => {
  const withoutUnit = ['port', 'httpPort', 'timeScale', 'electionPriority', 'cores'];
  const carriesUnit = (name: string): boolean =>
    /(?:Ms|Bytes|Max|Count|Ratio)$/.test(name) || withoutUnit.includes(name);

  it('that are numbers carry their unit', (context) => {
    assert.equal(carriesUnit('probeInterval'), false, 'the planted violation');
    const rows = Object.entries(optionsTable);
    const numbers = rows.filter(([, row]) => typeof row.defaultFor('lan') === 'number').map(([name]) => name);
    assert.deepEqual(
      seen(context, 'options', numbers).filter((name) => !carriesUnit(name)),
      [],
    );
  });
});

describe('pages', () => {
  const pages = read('*.md', 'docs/**/*.md');
  const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');
  const headings = (path: string): readonly string[] =>
    statSync(join(root, path)).isFile() ? anchorsOf(textOf(path)) : [];
  const exists = (path: string): boolean => existsSync(join(root, path));

  it('are refused with a broken link', () => {
    const page = { path: 'docs/a.md', text: '[a](b.md) [c](#d) [e](https://example.org)\n\n# E\n' };
    assert.equal(
      brokenLinks(
        page,
        (path) => path === 'docs/a.md',
        () => ['e'],
      ).length,
      2,
    );
  });

  it('have no broken link', (context) => {
    const links = seen(context, 'pages', pages).flatMap((page) => brokenLinks(page, exists, headings));
    assert.deepEqual(links, []);
  });

  it('show the enforced dependencies on at most 400 lines', () => {
    const page = textOf('docs/ARCHITECTURE.md');
    assert.ok(importTableDifferences('| `base/` | x | `io` |').length > 0, 'the planted violation');
    assert.deepEqual(importTableDifferences(page), []);
    assert.ok(page.split('\n').length <= 400);
  });

  it('name each sub-folder with sources', (context) => {
    const folders = [
      ...new Set(product.map(({ path }) => path.slice('src/'.length).split('/').slice(0, -1).join('/'))),
    ];
    const subFolders = seen(
      context,
      'sub-folders',
      folders.filter((folder) => folder.includes('/')),
    );
    assert.equal(subFolderDifferences('| `base/none` | x |', ['base/some']).length, 2, 'the planted violations');
    assert.deepEqual(subFolderDifferences(textOf('docs/ARCHITECTURE.md'), subFolders), []);
  });

  it('name only files that exist', (context) => {
    const planted = { path: 'docs/a.md', text: 'see `base/errors.ts` and `base/none.ts`' };
    assert.deepEqual(missingFiles(planted, exists), ['docs/a.md: there is no base/none.ts']);
    // A decision is dated and never rewritten: its files may be gone.
    const current = seen(
      context,
      'pages',
      pages.filter(({ path }) => !path.startsWith('docs/decisions/')),
    );
    assert.deepEqual(
      current.flatMap((page) => missingFiles(page, exists)),
      [],
    );
  });
});

describe('the glossary', () => {
  const termsOf = (text: string): readonly string[] =>
    [...text.matchAll(/^\| (?!term |---)([^|]+?) +\|/gm)].map((match) => (match[1] as string).toLowerCase());

  it('lists each term once, in alphabetical order', (context) => {
    assert.deepEqual(termsOf('| term | meaning |\n| --- | --- |\n| Fence | a |\n'), ['fence']);
    const terms = seen(context, 'terms', termsOf(readFileSync(join(root, 'docs/glossary.md'), 'utf8')));
    assert.ok(terms.length >= 80, `only ${terms.length} terms`);
    assert.deepEqual(terms, [...new Set(terms)].toSorted());
  });
});

describe('package-lock.json', () => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as Lockfile;

  it('names no host', (context) => {
    const planted: Lockfile = { packages: { 'node_modules/a': { resolved: 'https://example.org/a.tgz' } } };
    assert.equal(hostsInLockfile(planted).length, 1, 'the planted violation');
    seen(context, 'packages', Object.keys(lock.packages));
    assert.deepEqual(hostsInLockfile(lock), []);
    assert.doesNotMatch(JSON.stringify(lock), /"resolved"/);
  });

  it('lists the packages of every platform (node scripts/complete-lockfile.ts adds them)', () => {
    const planted: Lockfile = {
      packages: { 'node_modules/a': { optionalDependencies: { 'a-darwin-arm64': '1.0.0' } } },
    };
    assert.equal(missingFromLockfile(planted).length, 1, 'the planted violation');
    assert.deepEqual(missingFromLockfile(lock), []);
  });
});

describe('scenario files', () => {
  it('have names in lower case with hyphens', (context) => {
    const named = /^(?:.*\/)?[a-z0-9]+(?:-[a-z0-9]+)*\.json$/;
    assert.doesNotMatch('test/simulation/Bad_Name.json', named, 'the planted violation');
    const files = read('test/simulation/**/*.json').map(({ path }) => path);
    assert.deepEqual(
      seen(context, 'scenario files', files).filter((path) => !named.test(path)),
      [],
    );
  });
});
