import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { KnownTexts } from './known-texts.ts';

const encoder = new TextEncoder();

function read(known: KnownTexts, text: string): string | undefined {
  const bytes = encoder.encode(`<${text}>`);
  return known.read(bytes, 1, bytes.length - 2);
}

describe('known texts', () => {
  test('are found by their bytes and by themselves', () => {
    const known = new KnownTexts();
    for (const [i, text] of ['noop', 'a', 'x'.repeat(63)].entries()) {
      assert.equal(read(known, text), undefined);
      assert.equal(known.written(text), undefined);
      if (i % 2 === 0) known.keepWritten(text);
      else assert.equal(known.keepRead(text), text);
      assert.equal(read(known, text), text);
      assert.deepEqual([...(known.written(text) ?? [])], [text.length, ...encoder.encode(text)]);
    }
  });

  test('are not taken for others in the same place, and give it up to those who come often', () => {
    const known = new KnownTexts();
    known.keepRead('axbxc');
    // The same length, first, middle and last letter.
    assert.equal(read(known, 'aybyc'), undefined);
    assert.equal(known.written('aybyc'), undefined);
    assert.equal(known.keepRead('aybyc'), 'aybyc');
    assert.equal(read(known, 'axbxc'), 'axbxc');
    for (let i = 0; i < 100 && read(known, 'aybyc') === undefined; i++) assert.equal(known.keepRead('aybyc'), 'aybyc');
    assert.equal(read(known, 'aybyc'), 'aybyc');
    assert.equal(read(known, 'axbxc'), undefined);
    assert.equal(known.written('axbxc'), undefined);
  });

  test('never know the empty text', () => {
    assert.equal(read(new KnownTexts(), ''), undefined);
    assert.equal(new KnownTexts().written(''), undefined);
  });
});
