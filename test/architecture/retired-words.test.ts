/**
 * No file contains a retired word. The rule is first shown planted violations, then the real files; it reports
 * how many files it looked at and fails on none.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';

import type { Source } from '../support/rules/dependencies.ts';
import { checkedPaths, retiredWords, retiredWordsIn } from '../support/rules/retired-words.ts';

const root = resolve(import.meta.dirname, '../..');
const textFiles = '**/*.{ts,tsx,js,mjs,cjs,md,txt,json,html,css,c}';

/** The text files of one entry of `checkedPaths`: a folder, a file or a pattern of files. */
function filesOf(entry: string): readonly Source[] {
  const isFolder = statSync(join(root, entry), { throwIfNoEntry: false })?.isDirectory() === true;
  const paths = globSync(isFolder ? `${entry}/${textFiles}` : entry, { cwd: root });
  return paths.map((path) => ({
    path: path.replaceAll('\\', '/'),
    text: readFileSync(join(root, path), 'utf8'),
  }));
}

describe('the check of retired words', () => {
  const planted: readonly (readonly [place: string, path: string, text: string])[] = [
    ['a comment', 'src/base/a.ts', '// Nobody waits for it.'],
    ['an identifier', 'src/base/a.ts', 'const isHeardByWhoever = true;'],
    ['a private member', 'src/base/a.ts', '#errands = 0;'],
    ['an error text', 'src/base/a.ts', "throw new Error('somebody else has it');"],
    ['a test title', 'src/base/a.test.ts', "it('begins anew', () => {});"],
    ['a page', 'docs/a.md', 'This is the dearest part.'],
    ['the console', 'console/a.html', '<p>a newcomer</p>'],
    ['a golden trace', 'test/golden/a.txt', '# n2 is buried'],
  ];
  for (const [place, path, text] of planted) {
    it(`finds a retired word in ${place}`, () => {
      assert.equal(retiredWordsIn({ path, text }).length, 1, 'the planted violation');
    });
  }

  it('names file, line, word and the better words', () => {
    const [found] = retiredWordsIn({ path: 'src/base/a.ts', text: 'first\nit begins anew\n' });
    assert.equal(found, `src/base/a.ts:2: 'anew' is retired, write: ${retiredWords.get('anew')}`);
  });

  it('leaves words alone that only contain a retired one', () => {
    assert.deepEqual(retiredWordsIn({ path: 'docs/a.md', text: 'renewed, deafening, DEARLY, isPretender' }), []);
  });

  it('finds no retired word in the project', (context) => {
    const files = checkedPaths.flatMap((entry) => {
      const found = filesOf(entry);
      assert.ok(found.length > 0, `looked at no file of ${entry}`);
      return found;
    });
    context.diagnostic(`looked at ${files.length} files for ${retiredWords.size} words`);
    assert.deepEqual(files.flatMap(retiredWordsIn), []);
  });
});
