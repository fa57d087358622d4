import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import { isRemusterError } from '../../../base/errors.ts';
import { SealedFrameReader, openFrame, sealFrame } from './sealed-frame.ts';
import { deriveKey, makeKeyRing } from '../crypto/keys.ts';
import { secret } from '../../../../test/support/io/transport-nodes.ts';
import { Opener, Sealer } from '../crypto/seal.ts';
import { segmentHeaderBytes, segmentKinds, readSegments, writeSegment } from './segment.ts';

const key = deriveKey(makeKeyRing('test', { current: secret, previous: [] }).current.key, Buffer.from('s'), 'frames');

function read(reader: SealedFrameReader, opener: Opener, bytes: Uint8Array): string[] {
  const found: string[] = [];
  reader.read(bytes, (sealed) => found.push(openFrame(opener, sealed).toString()) > 0);
  return found;
}

test('the reader returns whole frames, however the stream is split into chunks', () => {
  const sealer = new Sealer(key);
  const texts = ['one', 'two'.repeat(9_000), 'three', ''.padEnd(70_000, 'x')];
  const stream = Buffer.concat(texts.flatMap((text) => sealFrame(sealer, Buffer.from(text))));
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: stream.length - 1 }), { maxLength: 12 }), (cuts) => {
      const reader = new SealedFrameReader();
      const opener = new Opener(key);
      const found: string[] = [];
      let from = 0;
      for (const to of [...cuts.toSorted((a, b) => a - b), stream.length]) {
        found.push(...read(reader, opener, stream.subarray(from, to)));
        from = to;
      }
      assert.deepEqual(found, texts);
    }),
    { numRuns: 100 },
  );
  const reader = new SealedFrameReader();
  const opener = new Opener(key);
  const found: string[] = [];
  for (let at = 0; at < 2_000; at++) found.push(...read(reader, opener, stream.subarray(at, at + 1)));
  assert.deepEqual(found, ['one']);
});

test('a frame length of 0, 1, 16, 200000, 2^31-1 or 2^32-1 is rejected before any byte is buffered', () => {
  for (const [length, code] of [
    [0, 'MALFORMED'],
    [1, 'MALFORMED'],
    [16, 'MALFORMED'],
    [200_000, 'TOO_LARGE'],
    [2 ** 31 - 1, 'TOO_LARGE'],
    [2 ** 32 - 1, 'TOO_LARGE'],
  ] as const) {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(length);
    assert.throws(
      () => new SealedFrameReader().read(head, () => assert.fail('no frame is there')),
      (error) => isRemusterError(error, code),
      `length ${length}`,
    );
  }
});

test('readSegments returns the written segments', () => {
  const into = new Uint8Array(200);
  let at = writeSegment(into, 0, segmentKinds.request, 1, 0xfedc_ba98, 5_000, Buffer.from('body'));
  at = writeSegment(into, at, segmentKinds.ping, 0, 0, 0, new Uint8Array(0));
  const found: unknown[] = [];
  readSegments(into.subarray(0, at), (kind, flags, id, argument, body) => {
    found.push([kind, flags, id, argument, Buffer.from(body).toString()]);
  });
  assert.deepEqual(found, [
    [segmentKinds.request, 1, 0xfedc_ba98, 5_000, 'body'],
    [segmentKinds.ping, 0, 0, 0, ''],
  ]);
});

test('readSegments of random bytes returns segments inside the frame or throws MALFORMED', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      let used = 0;
      try {
        readSegments(bytes, (_kind, _flags, _id, _argument, body) => {
          used += segmentHeaderBytes + body.length;
        });
        assert.equal(used, bytes.length);
      } catch (error) {
        assert.ok(isRemusterError(error, 'MALFORMED'), String(error));
      }
    }),
    { numRuns: 2_000 },
  );
});
