/** Rendering of lists and objects, and the detection of `-o json`. */
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
const render = async (format: OutputFormat): Promise<string> =>
  await renderList(format, rows, columns, (row) => row.name);

describe('a list', () => {
  test('is JSON, JSON lines and YAML with a schema version for programs', async () => {
    const shape = { schemaVersion: 1, items: rows };
    assert.deepEqual(JSON.parse(await render('json')), shape);
    assert.deepEqual(parse(await render('yaml')), shape);
    assert.deepEqual(
      (await render('jsonl')).split('\n').map((line) => JSON.parse(line) as unknown),
      rows,
    );
    assert.equal(await render('name'), 'a\nlonger');
  });

  test('is an aligned table for people, with more columns when wide', async () => {
    assert.equal(await render('table'), 'NAME\na\nlonger');
    assert.equal(await render('wide'), 'NAME    SIZE\na       1\nlonger  22');
  });

  test('never prints the control characters of a name', async () => {
    const malicious = [{ name: 'x\u001b[2Jy\n', size: 0 }];
    assert.equal(await renderList('table', malicious, columns, (row) => row.name), 'NAME\nx?[2Jy?');
    assert.equal(stripControls('\u009b31m'), '?31m');
  });
});

test('an object carries the schema version', async () => {
  const view = { name: 'n', lines: [['KEY', 'value']] as const };
  assert.deepEqual(JSON.parse(await renderObject('json', { key: 'value' }, view)), { schemaVersion: 1, key: 'value' });
  assert.equal(await renderObject('table', { key: 'value' }, view), 'KEY  value');
});

test('wantsJson recognizes every spelling of -o json', () => {
  for (const args of [['-o', 'json'], ['-ojson'], ['--output', 'json'], ['--output=json'], ['x', '-o', 'jsonl']]) {
    assert.equal(wantsJson(args), true, args.join(' '));
  }
  for (const args of [['-o', 'table'], ['json'], ['-o'], []]) assert.equal(wantsJson(args), false, args.join(' '));
});
