import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isPackedRows, packRows, unpackRows } from './row-codec.ts';
import type { StoreWrite } from './ports.ts';

const rows: readonly StoreWrite[] = [
  { key: 'plain', value: Uint8Array.of(1, 2, 3) },
  { key: '', value: new Uint8Array(0) },
  { key: 'gone', value: null },
  { key: 'k'.repeat(300), value: new Uint8Array(70_000).fill(7) },
];
const others: readonly StoreWrite[] = [...rows, { key: 'gr\u00f6\u00dfe \u{1f600}', value: Uint8Array.of(9) }];

for (const [name, some] of Object.entries({ 'plain keys': rows, 'other keys': others, nothing: [] })) {
  test(`unpackRows returns the packed rows with their prefix: ${name}`, () => {
    const packed = packRows(some);
    const found = unpackRows({ prefix: 'p/', packed });
    assert.deepEqual(
      found,
      some.map(({ key, value }) => ({ key: `p/${key}`, value })),
    );
    assert.ok(isPackedRows(packed, some.length, 300));
  });
}

test('isPackedRows rejects truncated rows, too many rows and keys that are not UTF-8', () => {
  const packed = packRows(others);
  const ends = new Set<number>([0]);
  for (let count = 1; count <= others.length; count++) ends.add(packRows(others.slice(0, count)).length);
  for (let end = 0; end <= 400; end++)
    assert.equal(isPackedRows(packed.subarray(0, end), 10, 300), ends.has(end), `${end}`);
  assert.equal(isPackedRows(packed.subarray(0, -1), 10, 300), false);
  assert.equal(isPackedRows(packed, others.length - 1, 300), false);
  assert.equal(isPackedRows(packed, 10, 299), false);
  assert.equal(isPackedRows(Uint8Array.of(0, 0, 0, 1, 0, 0, 0, 0, 0xff), 10, 300), false, 'not UTF-8');
  assert.equal(
    isPackedRows(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), 10, 300),
    false,
    'the tombstone length as a key length',
  );
});
