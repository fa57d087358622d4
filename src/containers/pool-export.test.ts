import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { isRemusterError } from '../base/errors.ts';
import { ExportReader, ExportChecksum } from './pool-export.ts';

const head = {
  ...{ export: 'remuster pool', format: 1, pool: 'p', module: 'm', moduleVersion: 0, containers: 2, copies: 2 },
  ...{ durability: 'copies', restart: false, params: null, exportedAt: '2026-01-01T00:00:00.000Z' },
};

function section(container: number, ...rows: readonly object[]): readonly string[] {
  const sum = new ExportChecksum();
  const lines = rows.map((row) => JSON.stringify(row));
  for (const line of lines) sum.add(line);
  return [JSON.stringify({ container }), ...lines, JSON.stringify(sum.end(container))];
}

const good = [
  JSON.stringify(head),
  ...section(0, { s: 'a', v: 'AA==' }, { t: 'soon', v: 'BB==' }),
  ...section(1),
  JSON.stringify({ complete: true, containers: 2 }),
];

/** The error of a whole file; '' if it is valid. */
function fault(lines: readonly string[]): string {
  const reader = new ExportReader();
  try {
    for (const line of lines) reader.take(line);
    reader.finish();
    return '';
  } catch (error) {
    assert.ok(isRemusterError(error), String(error));
    return `${error.code} ${error.message}`;
  }
}

describe('the file of an exported pool', () => {
  test('is read line by line', () => {
    assert.equal(fault(good), '');
    const reader = new ExportReader();
    assert.deepEqual(reader.take(good[0] ?? ''), head);
    reader.take(good[1] ?? '');
    assert.deepEqual(reader.take(good[2] ?? ''), { s: 'a', v: 'AA==' });
  });

  test('is refused if it is cut anywhere, or lacks any line', () => {
    for (let length = 0; length < good.length; length++) assert.match(fault(good.slice(0, length)), /^STORE_CORRUPT/);
    for (let at = 0; at < good.length; at++)
      assert.match(fault(good.toSpliced(at, 1)), /^STORE_CORRUPT/, good[at] ?? '');
    for (let at = 0; at < good.length; at++)
      assert.match(fault(good.toSpliced(at, 0, good[at] ?? '')), /^STORE_CORRUPT/, good[at] ?? '');
  });

  test('is refused if a row is changed, or two rows are swapped', () => {
    assert.match(fault(good.toSpliced(2, 1, '{"s":"a","v":"AQ=="}')), /checksum/);
    assert.match(fault(good.toSpliced(2, 2, good[3] ?? '', good[2] ?? '')), /checksum/);
  });

  test('is refused if it is another kind of file', () => {
    assert.match(fault(['hello']), /not a JSON object/);
    assert.match(fault(['{"export":"other"}']), /not an exported pool/);
    assert.match(fault([JSON.stringify({ ...head, format: 2 })]), /^INCOMPATIBLE_VERSION/);
    assert.match(fault([...good.slice(0, 2), '{"x":1}']), /unknown kind/);
  });
});
