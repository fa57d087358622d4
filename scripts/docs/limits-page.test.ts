import assert from 'node:assert/strict';
import { test } from 'node:test';

import { formatLimit, limitsPage } from './limits-page.ts';
import { limitSections } from './limits-table.ts';

test('the page of limits has a line for each row of the table', () => {
  const page = limitsPage();
  for (const { title, rows } of limitSections) {
    const section = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? '';
    for (const { name, beyond } of rows) assert.ok(section.includes(`| ${name} | `) && section.includes(beyond), name);
  }
});

test('each limit has a positive value, a unique name in its section, and one sentence', () => {
  for (const { rows } of limitSections) {
    assert.equal(new Set(rows.map(({ name }) => name)).size, rows.length);
    for (const { name, value, beyond } of rows) {
      assert.ok(Number.isSafeInteger(value) && value > 0, name);
      assert.match(beyond, /^[`A-Z].*\.$/, name);
    }
  }
});

test('formatLimit prints values as an operator would', () => {
  const texts = [
    formatLimit(167_772_160, 'bytes'),
    formatLimit(10_100_000, 'bytes'),
    formatLimit(1_024, 'bytes'),
    formatLimit(65_536, 'bytes'),
    formatLimit(32_768, 'count'),
    formatLimit(120_000, 'ms'),
    formatLimit(63, 'characters'),
  ];
  assert.deepEqual(texts, ['160 MiB', '10.1 MB', '1,024 bytes', '64 KiB', '32,768', '2 minutes', '63 characters']);
});
