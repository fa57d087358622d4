import assert from 'node:assert/strict';
import { test } from 'node:test';

import { otherSecret, secret } from '../../../../test/support/io/transport-nodes.ts';
import { clusterTag, deriveKey, makeKeyRing } from './keys.ts';
import { Opener, Sealer } from './seal.ts';

const ring = makeKeyRing('test', { current: secret, previous: [otherSecret] });
const key = deriveKey(ring.current.key, Buffer.from('salt'), 'test');
const plain = Buffer.from('the content of a frame');

function sealed(sealer: Sealer, bytes: Uint8Array = plain): Buffer {
  return Buffer.concat(sealer.seal(bytes));
}

test('sealed frames open in order, with and without prepare', () => {
  const [sealer, opener] = [new Sealer(key), new Opener(key)];
  for (let i = 0; i < 10; i++) {
    if (i % 3 === 0) sealer.prepare();
    if (i % 2 === 0) opener.prepare();
    assert.deepEqual(opener.open(sealed(sealer)), plain);
  }
});

test('both ends replace the key after the same number of frames, and no frame repeats', () => {
  const [sealer, opener] = [new Sealer(key, 4), new Opener(key, 4)];
  const seen = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const bytes = sealed(sealer);
    seen.add(bytes.toString('hex'));
    assert.deepEqual(opener.open(bytes), plain);
  }
  assert.equal(seen.size, 20);
  const stuck = new Opener(key, 1_000);
  const rotating = new Sealer(key, 4);
  for (let i = 0; i < 4; i++) assert.notEqual(stuck.open(sealed(rotating)), undefined);
  assert.equal(stuck.open(sealed(rotating)), undefined);
});

test('a frame with a flipped bit, truncated, under another key or out of order does not open', () => {
  const bytes = sealed(new Sealer(key));
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const flipped = Buffer.from(bytes);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    assert.equal(new Opener(key).open(flipped), undefined, `bit ${bit}`);
  }
  for (let length = 0; length < bytes.length; length++) {
    assert.equal(new Opener(key).open(bytes.subarray(0, length)), undefined, `length ${length}`);
  }
  const foreign = deriveKey(ring.current.key, Buffer.from('other salt'), 'test');
  assert.equal(new Opener(foreign).open(bytes), undefined);
  const second = new Opener(key);
  second.open(bytes);
  assert.equal(second.open(bytes), undefined);
  assert.notEqual(new Opener(key).open(bytes), undefined);
});

test('an end that is bound to another pair does not open the frame', () => {
  const [sealer, opener, other] = [new Sealer(key), new Opener(key), new Opener(key)];
  for (const end of [sealer, opener]) end.bind(Buffer.from('a to b'));
  other.bind(Buffer.from('a to c'));
  const bytes = sealed(sealer);
  assert.equal(other.open(bytes), undefined);
  assert.deepEqual(opener.open(bytes), plain);
});

test('a ring accepts the previous secrets under their own key ids', () => {
  assert.equal(ring.accepted.size, 2);
  const old = makeKeyRing('test', { current: otherSecret, previous: [] });
  assert.equal(ring.accepted.has(old.current.keyId), true);
  assert.equal(makeKeyRing('other', { current: secret, previous: [] }).current.keyId, ring.current.keyId);
  assert.notEqual(clusterTag('test'), clusterTag('other'));
});
