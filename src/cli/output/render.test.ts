/** How data and failures are shown. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { wantsJson } from '../command/exit.ts';
import { type Column, type OutputFormat, renderList, renderObject } from './render.ts';
import { stripControls } from './terminal.ts';

type Row = { name: string; size: number };
const columns: Column<Row>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'SIZE', wide: true, cell: (row) => String(row.size) },
];
const rows = [
  { name: 'a', size: 1 },
  { name: 'longer', size: 22 },
];
const show = async (format: OutputFormat): Promise<string> =>
  await renderList(format, rows, columns, (row) => row.name);

describe('a list', () => {
  test('has a shape with a version for programs', async () => {
    const shape = { schemaVersion: 1, items: rows };
    assert.deepEqual(JSON.parse(await show('json')), shape);
    assert.deepEqual(parse(await show('yaml')), shape);
    assert.deepEqual(
      (await show('jsonl')).split('\n').map((line) => JSON.parse(line) as unknown),
      rows,
    );
    assert.equal(await show('name'), 'a\nlonger');
  });

  test('is aligned for people, with more columns when wide', async () => {
    assert.equal(await show('table'), 'NAME\na\nlonger');
    assert.equal(await show('wide'), 'NAME    SIZE\na       1\nlonger  22');
  });

  test('cannot move the cursor of the reader', async () => {
    const evil = [{ name: 'x\u001b[2Jy\n', size: 0 }];
    assert.equal(await renderList('table', evil, columns, (row) => row.name), 'NAME\nx?[2Jy?');
    assert.equal(stripControls('\u009b31m'), '?31m');
  });
});

test('a thing carries its version, too', async () => {
  const view = { name: 'n', lines: [['KEY', 'value']] as const };
  assert.deepEqual(JSON.parse(await renderObject('json', { key: 'value' }, view)), { schemaVersion: 1, key: 'value' });
  assert.equal(await renderObject('table', { key: 'value' }, view), 'KEY  value');
});

test('the wish for JSON is heard in every spelling', () => {
  for (const words of [['-o', 'json'], ['-ojson'], ['--output', 'json'], ['--output=json'], ['x', '-o', 'jsonl']]) {
    assert.equal(wantsJson(words), true, words.join(' '));
  }
  for (const words of [['-o', 'table'], ['json'], ['-o'], []]) assert.equal(wantsJson(words), false, words.join(' '));
});
