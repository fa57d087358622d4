/** What a member can do with messages that come in parts: none of it harms the node. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';

import { announcement, EvilPeer, unharmed } from './evil.test.ts';
import { count, echo, limit, type Node, startNode } from './fixtures.test.ts';
import { compressedFlag, kinds } from './segment.ts';

async function inflate(node: Node, body: Buffer, rawBytes: number): Promise<EvilPeer> {
  const evil = await EvilPeer.join(node);
  evil.send(kinds.begin, 0, 1, body.length, announcement(kinds.request, compressedFlag, rawBytes));
  for (let at = 0; at < body.length; at += 30_000) evil.send(kinds.part, 0, 1, 0, body.subarray(at, at + 30_000));
  return evil;
}

test('compression bombs: a false size, a size beyond the limit, a ratio beyond the limit, noise', limit, async () => {
  const node = await startNode('n');
  const bomb = zstdCompressSync(new Uint8Array(50 * 2 ** 20));
  const noise = randomBytes(2_000);
  for (const [name, body, rawBytes] of [
    ['more inside than said', bomb, bomb.length * 90],
    ['less inside than said', zstdCompressSync(noise), 3_000],
    ['beyond the limit', randomBytes(2 ** 20), 100 * 2 ** 20 + 1],
    ['beyond the ratio', bomb, 50 * 2 ** 20],
    ['nothing inside', noise, 0],
    ['not compressed at all', noise, 4_000],
  ] as const) {
    const before = count(node, 'rejected.decompression');
    const evil = await inflate(node, Buffer.from(body), rawBytes);
    await evil.closed;
    assert.equal(count(node, 'rejected.decompression'), before + 1, name);
  }
  const honest = await inflate(node, zstdCompressSync(noise), noise.length);
  assert.deepEqual((await honest.hears(({ kind }) => kind === kinds.reply)).body, noise);
  await unharmed(node);
});

test('reassembly memory is shared by all connections and bounded', limit, async () => {
  const node = await startNode('n', { limits: { reassemblyTotalBytesMax: 2_000_000, reassemblyBytesMax: 1_500_000 } });
  const [first, second] = [await EvilPeer.join(node), await EvilPeer.join(node)];
  first.send(kinds.begin, 0, 1, 1_200_000, announcement(kinds.request, 0, 1_200_000));
  first.send(kinds.begin, 0, 2, 1_200_000, announcement(kinds.request, 0, 1_200_000));
  await first.hears(({ kind, body }) => kind === kinds.error && body.toString().startsWith('CAPACITY'));
  second.send(kinds.begin, 0, 1, 1_200_000, announcement(kinds.request, 0, 1_200_000));
  await second.hears(({ kind, body }) => kind === kinds.error && body.toString().startsWith('CAPACITY'));
  assert.equal(count(node, 'rejected.reassembly'), 2);
  first.socket.destroy();
  await first.closed;
  const third = await EvilPeer.join(node);
  third.send(kinds.begin, 0, 1, 1_200_000, announcement(kinds.request, 0, 1_200_000));
  for (let i = 0; i < 40; i++) third.send(kinds.part, 0, 1, 0, Buffer.alloc(30_000));
  await third.hears(({ kind }) => kind === kinds.begin || kind === kinds.reply);
});

test('a request that is inflated when its id is in use ends its connection, and not the process', limit, async () => {
  const node = await startNode('n');
  node.transport.streams.serve({ ...echo, request: () => undefined });
  const evil = await inflate(node, zstdCompressSync(randomBytes(2_000)), 2_000);
  evil.send(kinds.request, 0, 5, 1_000);
  await evil.closed;
  assert.equal(count(node, 'rejected.malformed'), 1);
  node.transport.streams.serve(echo);
  await unharmed(node);
});
