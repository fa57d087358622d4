import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { createCodec } from './codec.ts';
import { field } from './compound.ts';
import { message } from './message.ts';
import { internedText } from './interned-text.ts';
import { text } from './strings.ts';

const declared = {
  kind: 'said',
  tag: 1,
  carrier: 'stream',
  from: ['manager'],
  bytesMax: 100_000,
  doc: 'Said.',
} as const;

function codecs() {
  const plain = createCodec([message({ ...declared, fields: { words: field(1, text(50_000), 'Words.') } })]);
  const repeated = createCodec([message({ ...declared, fields: { words: field(1, internedText(50_000), 'Words.') } })]);
  return { plain, repeated };
}

/** Of one length, of lengths in the same place, with other letters in the same bytes, too long to be kept, none. */
const texts = [
  ...['abcdefgh', 'abcdefgX', 'Xbcdefgh', 'a'.repeat(24), 'a'.repeat(700), `${'a'.repeat(699)}b`, '', 'x'],
  ...['caf\u00e9', 'cafe!', '\u{1f600}'.repeat(40), '\ufeffmark', 'y'.repeat(20_000), 'z'.repeat(49_999)],
];

describe('repeated text', () => {
  test('has the bytes of any other text and comes back as it was, however often and in which order', () => {
    const { plain, repeated } = codecs();
    for (let round = 0; round < 40; round++) {
      for (const [i, words] of texts.entries()) {
        const said = { kind: 'said', words: texts[(i * (round + 1)) % texts.length] ?? words } as const;
        const bytes = repeated.encode(said);
        assert.deepEqual([...bytes], [...plain.encode(said)]);
        assert.deepEqual(repeated.decode(bytes), said);
        // As it lies in what a socket gave.
        const inside = Buffer.concat([Buffer.from('before'), bytes, Buffer.from('behind')]);
        assert.deepEqual(repeated.decode(inside.subarray(6, 6 + bytes.length)), said);
      }
    }
  });

  test('is refused as any other text is, also when much was said before', () => {
    const { plain, repeated } = codecs();
    for (let i = 0; i < 20; i++) repeated.decode(repeated.encode({ kind: 'said', words: 'abcdefgh' }));
    for (const wrong of ['x'.repeat(50_001), 'lone \ud800', 7, undefined] as string[])
      assert.throws(() => repeated.encode({ kind: 'said', words: wrong }), { name: 'RemusterError' });
    const bytes = Uint8Array.from(plain.encode({ kind: 'said', words: 'abcdefgh' }));
    assert.throws(() => repeated.decode(bytes.subarray(0, -1)), { code: 'MALFORMED' });
    bytes[bytes.length - 1] = 0xff;
    assert.throws(() => repeated.decode(bytes), { code: 'MALFORMED' });
  });
});
