import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crc32c } from './crc.ts';

const ascending = Uint8Array.from({ length: 32 }, (_, i) => i);

/** RFC 3720, B.4, and the check value of the CRC catalogues. */
const known: readonly (readonly [string, Uint8Array, number])[] = [
  ['no bytes', new Uint8Array(), 0],
  ['123456789', new TextEncoder().encode('123456789'), 0xe306_9283],
  ['32 bytes of zero', new Uint8Array(32), 0x8a91_36aa],
  ['32 bytes of ones', new Uint8Array(32).fill(0xff), 0x62a8_ab43],
  ['32 ascending bytes', ascending, 0x46dd_794e],
  ['32 descending bytes', ascending.toReversed(), 0x113f_db5c],
];

for (const [name, bytes, crc] of known)
  test(`crc32c computes the checksum of ${name}`, () => assert.equal(crc32c(bytes), crc));

test('crc32c of a range equals that of a copy of the range', () => {
  for (let start = 0; start < 8; start++) {
    for (let end = start; end <= 32; end++) {
      assert.equal(crc32c(ascending, start, end), crc32c(ascending.slice(start, end)));
    }
  }
});
