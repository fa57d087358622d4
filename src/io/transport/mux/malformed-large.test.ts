/** Malformed large messages of a member: they end its connection and do not harm the node. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';

import { transferHeaderBytes, MisbehavingPeer, assertUnharmed } from '../../../../test/fakes/misbehaving-peer.ts';
import {
  counterOf,
  echo,
  testTimeout,
  type TransportTestNode,
  startTransportNode,
} from '../../../../test/support/io/transport-nodes.ts';
import { compressedFlag, segmentKinds } from './segment.ts';

async function sendCompressed(node: TransportTestNode, body: Buffer, rawBytes: number): Promise<MisbehavingPeer> {
  const hostile = await MisbehavingPeer.join(node);
  hostile.send(
    segmentKinds.begin,
    0,
    1,
    body.length,
    transferHeaderBytes(segmentKinds.request, compressedFlag, rawBytes),
  );
  for (let at = 0; at < body.length; at += 30_000)
    hostile.send(segmentKinds.part, 0, 1, 0, body.subarray(at, at + 30_000));
  return hostile;
}

test(
  'compression bombs are rejected: a false size, a size or ratio beyond the limit, random bytes',
  testTimeout,
  async () => {
    const node = await startTransportNode('n');
    const bomb = zstdCompressSync(new Uint8Array(50 * 2 ** 20));
    const noise = randomBytes(2_000);
    for (const [name, body, rawBytes] of [
      ['larger than announced', bomb, bomb.length * 90],
      ['smaller than announced', zstdCompressSync(noise), 3_000],
      ['beyond the limit', randomBytes(2 ** 20), 100 * 2 ** 20 + 1],
      ['beyond the ratio', bomb, 50 * 2 ** 20],
      ['empty', noise, 0],
      ['not compressed', noise, 4_000],
    ] as const) {
      const before = counterOf(node, 'rejected.decompression');
      const hostile = await sendCompressed(node, Buffer.from(body), rawBytes);
      await hostile.closed;
      assert.equal(counterOf(node, 'rejected.decompression'), before + 1, name);
    }
    const honest = await sendCompressed(node, zstdCompressSync(noise), noise.length);
    assert.deepEqual((await honest.waitForSegment(({ kind }) => kind === segmentKinds.reply)).body, noise);
    await assertUnharmed(node);
  },
);

test('reassembly memory is shared by all connections and bounded', testTimeout, async () => {
  const node = await startTransportNode('n', {
    limits: { reassemblyTotalBytesMax: 2_000_000, reassemblyBytesMax: 1_500_000 },
  });
  const [first, second] = [await MisbehavingPeer.join(node), await MisbehavingPeer.join(node)];
  first.send(segmentKinds.begin, 0, 1, 1_200_000, transferHeaderBytes(segmentKinds.request, 0, 1_200_000));
  first.send(segmentKinds.begin, 0, 2, 1_200_000, transferHeaderBytes(segmentKinds.request, 0, 1_200_000));
  await first.waitForSegment(({ kind, body }) => kind === segmentKinds.error && body.toString().startsWith('CAPACITY'));
  second.send(segmentKinds.begin, 0, 1, 1_200_000, transferHeaderBytes(segmentKinds.request, 0, 1_200_000));
  await second.waitForSegment(
    ({ kind, body }) => kind === segmentKinds.error && body.toString().startsWith('CAPACITY'),
  );
  assert.equal(counterOf(node, 'rejected.reassembly'), 2);
  first.socket.destroy();
  await first.closed;
  const third = await MisbehavingPeer.join(node);
  third.send(segmentKinds.begin, 0, 1, 1_200_000, transferHeaderBytes(segmentKinds.request, 0, 1_200_000));
  for (let i = 0; i < 40; i++) third.send(segmentKinds.part, 0, 1, 0, Buffer.alloc(30_000));
  await third.waitForSegment(({ kind }) => kind === segmentKinds.begin || kind === segmentKinds.reply);
});

test(
  'a request that is decompressed while its id is in use ends its connection, not the process',
  testTimeout,
  async () => {
    const node = await startTransportNode('n');
    node.transport.streams.serve({ ...echo, request: () => undefined });
    const hostile = await sendCompressed(node, zstdCompressSync(randomBytes(2_000)), 2_000);
    hostile.send(segmentKinds.request, 0, 5, 1_000);
    await hostile.closed;
    assert.equal(counterOf(node, 'rejected.malformed'), 1);
    node.transport.streams.serve(echo);
    await assertUnharmed(node);
  },
);
