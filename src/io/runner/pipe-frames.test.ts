import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Random } from '../../base/random.ts';
import { PipeFrameReader, PipeFrameWriter, pipeFrameBytesMax } from './pipe-frames.ts';
import { encodeRunnerStart, decodeRunnerStart } from './runner-protocol.ts';

it('a reader returns the written frames, however the bytes are split into chunks', () => {
  const random = new Random('frames');
  const sent = Array.from({ length: 300 }, (_, i) => ({
    kind: i & 0xff,
    body: random.bytes(random.below(i % 50 === 0 ? 9_000 : 300)),
  }));
  const writer = new PipeFrameWriter();
  const parts: Uint8Array[] = [];
  for (const { kind, body } of sent) {
    const own = Uint8Array.from(body);
    writer.add(kind, own);
    own.fill(0);
    if (random.below(20) === 0) parts.push(...writer.take());
  }
  parts.push(...writer.take());
  assert.deepEqual([writer.count, writer.take()], [0, []]);
  const bytes = Buffer.concat(parts);
  const reader = new PipeFrameReader();
  const read = [];
  for (let at = 0; at < bytes.length;) {
    const end = at + 1 + random.below(at % 2 === 0 ? 400 : 4_000);
    read.push(...reader.read(bytes.subarray(at, end)));
    at = end;
  }
  assert.deepEqual(
    read.map(({ kind, body }) => ({ kind, body: Uint8Array.from(body) })),
    sent.map(({ kind, body }) => ({ kind, body: Uint8Array.from(body) })),
  );
});

it('a length beyond the bound is refused before memory is allocated for it', () => {
  const reader = new PipeFrameReader();
  const header = Uint8Array.from([0xff, 0xff, 0xff, 0xff, 2]);
  assert.throws(() => reader.read(header), { code: 'TOO_LARGE' });
  const large = new Uint8Array(pipeFrameBytesMax + 1);
  assert.throws(() => new PipeFrameWriter().add(2, large), { code: 'TOO_LARGE' });
});

it('a start frame decodes to its module and data', () => {
  const start = { moduleUrl: 'file:///caf\u00e9.ts', data: Uint8Array.from([1, 2, 3]) };
  assert.deepEqual(decodeRunnerStart(encodeRunnerStart(start)), start);
  assert.throws(() => decodeRunnerStart(new Uint8Array(3)), { code: 'MALFORMED' });
});
