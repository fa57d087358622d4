import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Random } from '../base/random.ts';
import { FrameReader, frameBodyBytesMax, frameOf } from './frames.ts';
import { packStart, unpackStart } from './runner-line.ts';

it('frames come out as they went in, however the bytes are cut', () => {
  const random = new Random('frames');
  const sent = Array.from({ length: 300 }, (_, i) => ({ kind: i & 0xff, body: random.bytes(random.below(300)) }));
  const bytes = Buffer.concat(sent.map(({ kind, body }) => frameOf(kind, body)));
  const reader = new FrameReader();
  const read = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + random.below(400);
    read.push(...reader.read(bytes.subarray(at, end)));
    at = end;
  }
  assert.deepEqual(read, sent);
});

it('a length beyond the bound is refused before memory is taken for it', () => {
  const reader = new FrameReader();
  const header = Uint8Array.from([0xff, 0xff, 0xff, 0xff, 2]);
  assert.throws(() => [...reader.read(header)], { code: 'TOO_LARGE' });
  assert.throws(() => frameOf(2, new Uint8Array(frameBodyBytesMax + 1)), { code: 'TOO_LARGE' });
});

it('a start keeps its module and its data', () => {
  const start = { moduleUrl: 'file:///caf\u00e9.ts', data: Uint8Array.from([1, 2, 3]) };
  assert.deepEqual(unpackStart(packStart(start)), start);
  assert.throws(() => unpackStart(new Uint8Array(3)), { code: 'MALFORMED' });
});
