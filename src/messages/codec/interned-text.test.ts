import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { createCodec } from './codec.ts';
import { field } from './compound.ts';
import { message } from './message.ts';
import { internedText } from './interned-text.ts';
import { text } from './strings.ts';

const declared = {
  kind: 'note',
  tag: 1,
  carrier: 'stream',
  from: ['manager'],
  bytesMax: 100_000,
  doc: 'A note.',
} as const;

function codecs() {
  const plain = createCodec([message({ ...declared, fields: { content: field(1, text(50_000), 'Content.') } })]);
  const interned = createCodec([
    message({ ...declared, fields: { content: field(1, internedText(50_000), 'Content.') } }),
  ]);
  return { plain, interned };
}

/** Equal lengths, lengths that share a slot, other characters in as many bytes, too long to be interned, empty. */
const texts = [
  ...['abcdefgh', 'abcdefgX', 'Xbcdefgh', 'a'.repeat(24), 'a'.repeat(700), `${'a'.repeat(699)}b`, '', 'x'],
  ...['caf\u00e9', 'cafe!', '\u{1f600}'.repeat(40), '\ufeffmark', 'y'.repeat(20_000), 'z'.repeat(49_999)],
];

describe('interned text', () => {
  test('has the same bytes as other text and survives repetition in any order', () => {
    const { plain, interned } = codecs();
    for (let round = 0; round < 40; round++) {
      for (const [i, content] of texts.entries()) {
        const note = { kind: 'note', content: texts[(i * (round + 1)) % texts.length] ?? content } as const;
        const bytes = interned.encode(note);
        assert.deepEqual([...bytes], [...plain.encode(note)]);
        assert.deepEqual(interned.decode(bytes), note);
        // A view of a larger buffer, as from a socket.
        const inside = Buffer.concat([Buffer.from('before'), bytes, Buffer.from('after')]);
        assert.deepEqual(interned.decode(inside.subarray(6, 6 + bytes.length)), note);
      }
    }
  });

  test('is rejected like other text, also after earlier hits', () => {
    const { plain, interned } = codecs();
    for (let i = 0; i < 20; i++) interned.decode(interned.encode({ kind: 'note', content: 'abcdefgh' }));
    for (const wrong of ['x'.repeat(50_001), 'lone \ud800', 7, undefined] as string[])
      assert.throws(() => interned.encode({ kind: 'note', content: wrong }), { name: 'RemusterError' });
    const bytes = Uint8Array.from(plain.encode({ kind: 'note', content: 'abcdefgh' }));
    assert.throws(() => interned.decode(bytes.subarray(0, -1)), { code: 'MALFORMED' });
    bytes[bytes.length - 1] = 0xff;
    assert.throws(() => interned.decode(bytes), { code: 'MALFORMED' });
  });
});
