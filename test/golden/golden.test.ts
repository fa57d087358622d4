/**
 * Golden traces: each test/golden/*.txt is a list of commands with their output, in text that reads like the protocol.
 * If one fails, run `REWRITE=1 node --test test/golden/golden.test.ts` and read the diff; keep it only if you
 * understand what caused it.
 *
 *   # a comment
 *   command
 *   ----
 *   the output, up to an empty line
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { consensusDriver } from '../support/golden/consensus-driver.ts';
import { membershipDriver } from '../support/golden/membership-driver.ts';
import { placementDriver } from '../support/golden/placement-driver.ts';

/** By the first word of the file name. A driver executes one command and returns its output. */
const drivers: Readonly<Record<string, () => (command: string) => string>> = {
  consensus: consensusDriver,
  membership: membershipDriver,
  placement: placementDriver,
};

const folder = join(import.meta.dirname, './');
const files = readdirSync(folder).filter((file) => file.endsWith('.txt'));

test('the folder has golden traces', () => assert.notEqual(files.length, 0));

for (const file of files) {
  test(`the golden trace ${file} is reproduced`, () => {
    const path = join(folder, file);
    const expected = readFileSync(path, 'utf8');
    const createDriver = drivers[file.split(/[-.]/)[0] ?? ''];
    assert.ok(createDriver !== undefined, `no driver is registered for ${file}`);
    const actual = replay(expected, createDriver());
    if (process.env['REWRITE'] === '1') writeFileSync(path, actual);
    else assert.equal(actual, expected);
  });
}

/** The same text with every output replaced by the output of now. */
function replay(text: string, execute: (command: string) => string): string {
  const blocks = text.trimEnd().split(/\n\n+/);
  const replayed = blocks.map((block) => {
    const lines = block.split('\n');
    const command = lines.find((line) => !line.startsWith('#'));
    if (command === undefined) return block;
    const head = lines.slice(0, lines.indexOf(command) + 1);
    return [...head, '----', execute(command)].join('\n').trimEnd();
  });
  return `${replayed.join('\n\n')}\n`;
}
