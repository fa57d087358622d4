/**
 * Golden traces: each test/golden/*.txt is a conversation of commands and what they led to, in text that reads like
 * the protocol. If one fails, run `REWRITE=1 node --test test/golden/golden.test.ts` and read the diff; keep it only if you
 * understand what caused it.
 *
 *   # a comment
 *   command
 *   ----
 *   what came of it, up to an empty line
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { consensusDriver } from '../support/golden/consensus-driver.ts';
import { membershipDriver } from '../support/golden/membership-driver.ts';
import { placementDriver } from '../support/golden/placement-driver.ts';

/** By the first word of the file's name. A trace executes one command and returns what there is to see. */
const traces: Readonly<Record<string, () => (command: string) => string>> = {
  consensus: consensusDriver,
  membership: membershipDriver,
  placement: placementDriver,
};

const folder = join(import.meta.dirname, './');
const files = readdirSync(folder).filter((file) => file.endsWith('.txt'));

test('there are golden traces to compare with', () => assert.notEqual(files.length, 0));

for (const file of files) {
  test(`golden ${file}`, () => {
    const path = join(folder, file);
    const expected = readFileSync(path, 'utf8');
    const trace = traces[file.split(/[-.]/)[0] ?? ''];
    assert.ok(trace !== undefined, `no trace is registered for ${file}`);
    const actual = replay(expected, trace());
    if (process.env['REWRITE'] === '1') writeFileSync(path, actual);
    else assert.equal(actual, expected);
  });
}

/** The same text with every answer replaced by what happens today. */
function replay(text: string, execute: (command: string) => string): string {
  const blocks = text.trimEnd().split(/\n\n+/);
  const answered = blocks.map((block) => {
    const lines = block.split('\n');
    const command = lines.find((line) => !line.startsWith('#'));
    if (command === undefined) return block;
    const head = lines.slice(0, lines.indexOf(command) + 1);
    return [...head, '----', execute(command)].join('\n').trimEnd();
  });
  return `${answered.join('\n\n')}\n`;
}
