import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeBase64, encodeBase64 } from './base64.ts';

test('bytes survive the round trip in the standard alphabet', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      const text = encodeBase64(bytes);
      assert.equal(text, Buffer.from(bytes).toString('base64'));
      assert.deepEqual(decodeBase64(text), bytes);
    }),
  );
  const large = Uint8Array.from({ length: 600_000 }, (_, index) => index % 251);
  assert.deepEqual(decodeBase64(encodeBase64(large)), large);
});

test('decodeBase64 rejects text that is not base64', () => {
  for (const text of ['#', 'a', '\u{1f600}']) assert.throws(() => decodeBase64(text), /not base64/);
});
