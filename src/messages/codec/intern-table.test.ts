import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { InternTable } from './intern-table.ts';

const encoder = new TextEncoder();

function read(table: InternTable, text: string): string | undefined {
  const bytes = encoder.encode(`<${text}>`);
  return table.lookup(bytes, 1, bytes.length - 2);
}

describe('interned texts', () => {
  test('are found by their bytes and by their text', () => {
    const table = new InternTable();
    for (const [i, text] of ['noop', 'a', 'x'.repeat(63)].entries()) {
      assert.equal(read(table, text), undefined);
      assert.equal(table.encodedForm(text), undefined);
      if (i % 2 === 0) table.addEncoded(text);
      else assert.equal(table.addDecoded(text), text);
      assert.equal(read(table, text), text);
      assert.deepEqual([...(table.encodedForm(text) ?? [])], [text.length, ...encoder.encode(text)]);
    }
  });

  test('are not confused in one slot, and are replaced after repeated misses', () => {
    const table = new InternTable();
    table.addDecoded('axbxc');
    // The same length, first, middle and last character.
    assert.equal(read(table, 'aybyc'), undefined);
    assert.equal(table.encodedForm('aybyc'), undefined);
    assert.equal(table.addDecoded('aybyc'), 'aybyc');
    assert.equal(read(table, 'axbxc'), 'axbxc');
    for (let i = 0; i < 100 && read(table, 'aybyc') === undefined; i++)
      assert.equal(table.addDecoded('aybyc'), 'aybyc');
    assert.equal(read(table, 'aybyc'), 'aybyc');
    assert.equal(read(table, 'axbxc'), undefined);
    assert.equal(table.encodedForm('axbxc'), undefined);
  });

  test('never include the empty text', () => {
    assert.equal(read(new InternTable(), ''), undefined);
    assert.equal(new InternTable().encodedForm(''), undefined);
  });
});
