import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { InternTable } from './intern-table.ts';

const encoder = new TextEncoder();

function read(known: InternTable, text: string): string | undefined {
  const bytes = encoder.encode(`<${text}>`);
  return known.lookup(bytes, 1, bytes.length - 2);
}

describe('known texts', () => {
  test('are found by their bytes and by themselves', () => {
    const known = new InternTable();
    for (const [i, text] of ['noop', 'a', 'x'.repeat(63)].entries()) {
      assert.equal(read(known, text), undefined);
      assert.equal(known.encodedForm(text), undefined);
      if (i % 2 === 0) known.addEncoded(text);
      else assert.equal(known.addDecoded(text), text);
      assert.equal(read(known, text), text);
      assert.deepEqual([...(known.encodedForm(text) ?? [])], [text.length, ...encoder.encode(text)]);
    }
  });

  test('are not taken for others in the same place, and give it up to those who come often', () => {
    const known = new InternTable();
    known.addDecoded('axbxc');
    // The same length, first, middle and last letter.
    assert.equal(read(known, 'aybyc'), undefined);
    assert.equal(known.encodedForm('aybyc'), undefined);
    assert.equal(known.addDecoded('aybyc'), 'aybyc');
    assert.equal(read(known, 'axbxc'), 'axbxc');
    for (let i = 0; i < 100 && read(known, 'aybyc') === undefined; i++)
      assert.equal(known.addDecoded('aybyc'), 'aybyc');
    assert.equal(read(known, 'aybyc'), 'aybyc');
    assert.equal(read(known, 'axbxc'), undefined);
    assert.equal(known.encodedForm('axbxc'), undefined);
  });

  test('never know the empty text', () => {
    assert.equal(read(new InternTable(), ''), undefined);
    assert.equal(new InternTable().encodedForm(''), undefined);
  });
});
