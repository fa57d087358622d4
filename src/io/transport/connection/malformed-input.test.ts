/**
 * Hostile bytes on connections: rejected with a counter per reason, without a reply and without harm to other peers.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';

import { wireFormat } from '../../../base/format-versions.ts';
import { Random } from '../../../base/random.ts';
import {
  transferHeaderBytes,
  MisbehavingPeer,
  rawSocket,
  assertUnharmed,
} from '../../../../test/fakes/misbehaving-peer.ts';
import {
  sendRequest,
  codeOf,
  counterOf,
  echo,
  identity,
  testTimeout,
  type TransportTestNode,
  otherSecret,
  secret,
  startTransportNode,
  text,
  waitUntil,
} from '../../../../test/support/io/transport-nodes.ts';
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { helloBytes, makeGreeting, makeHello, makeSealPair, readHello } from '../crypto/handshake.ts';
import { sealFrame } from '../mux/sealed-frame.ts';
import { makeKeyRing } from '../crypto/keys.ts';
import { segmentKinds } from '../mux/segment.ts';
import { streamWindowBytes } from '../mux/stream-endpoint.ts';

const master = makeKeyRing('test', { current: secret, previous: [] }).current;
const roomy = { limits: { handshakesPerAddressMax: 256 } };

/** Sends bytes as an unauthenticated peer; the node must close without sending a byte. */
async function assertClosedSilently(node: TransportTestNode, bytes: Uint8Array): Promise<void> {
  const { socket, closed } = await rawSocket(node.transport.port);
  socket.write(bytes);
  assert.equal(await closed, 0, 'an unauthenticated peer got a reply');
}

test(
  'plain text, a wrong version, a wrong cluster and a wrong key get no reply and are counted by reason',
  testTimeout,
  async () => {
    const node = await startTransportNode('n');
    await assertClosedSilently(node, Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'));
    assert.equal(counterOf(node, 'rejected.malformed'), 1);
    const future = makeHello(master, 'test', randomBytes(32));
    future[4] = 9;
    await assertClosedSilently(node, future);
    assert.equal(counterOf(node, 'rejected.version'), 1);
    await assertClosedSilently(node, makeHello(master, 'other', randomBytes(32)));
    assert.equal(counterOf(node, 'rejected.wrongCluster'), 1);
    const foreign = makeKeyRing('test', { current: otherSecret, previous: [] }).current;
    await assertClosedSilently(node, makeHello(foreign, 'test', randomBytes(32)));
    assert.equal(counterOf(node, 'rejected.unknownKey'), 1);
    await assertClosedSilently(node, makeHello({ ...foreign, keyId: master.keyId }, 'test', randomBytes(32)));
    assert.equal(counterOf(node, 'rejected.unauthenticated'), 1);
    await assertUnharmed(node);
  },
);

test('a peer with another wire format is rejected with the reason version', testTimeout, async () => {
  const node = await startTransportNode('n');
  const later = await MisbehavingPeer.join(node, {}, (greeting) => {
    greeting.writeUInt16BE(wireFormat + 1, 0);
    return greeting;
  });
  await once(later.socket, 'close');
  assert.equal(counterOf(node, 'rejected.version'), 1);
  await assertUnharmed(node);
});

test('a node that dials a peer with another wire format gets an error with both numbers', testTimeout, async () => {
  const client = await startTransportNode('client');
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (bytes: Buffer) => {
      const ring = makeKeyRing('test', { current: secret, previous: [] });
      const hello = readHello(bytes, ring, 'test', new BoundedLru<string, true>(8));
      const salt = randomBytes(32);
      const { sealer } = makeSealPair('server', hello.master, 'test', { client: hello.salt, server: salt });
      const greeting = makeGreeting({ identity: identity('later'), sessions: new Uint8Array(0) });
      greeting.writeUInt16BE(wireFormat + 1, 0);
      for (const part of [salt, ...sealFrame(sealer, greeting)]) socket.write(part);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  after(() => server.close());
  const { port } = server.address() as { port: number };
  const outcome = await sendRequest(client, { ...client.self, port }, text('x'));
  assert.ok(!outcome.ok && outcome.error.code === 'INCOMPATIBLE_VERSION');
  assert.match(outcome.error.message, new RegExp(`wire format ${wireFormat + 1} and this node ${wireFormat}`));
});

test('a hello with a flipped bit gets no reply', testTimeout, async () => {
  const node = await startTransportNode('n', roomy);
  const hello = makeHello(master, 'test', randomBytes(32));
  const before = node.transport.counters();
  for (let bit = 0; bit < hello.length * 8; bit++) {
    const flipped = Buffer.from(hello);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    await assertClosedSilently(node, flipped);
  }
  assert.deepEqual(before['rejected.malformed'], undefined);
  const refused = ['malformed', 'version', 'unknownKey', 'wrongCluster', 'unauthenticated'];
  assert.deepEqual(
    refused.map((reason) => counterOf(node, `rejected.${reason}`)),
    [32, 8, 32, 32, (32 + 32) * 8],
  );
  await assertUnharmed(node);
});

test('a connection with a truncated hello is closed at the deadline', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { handshakeMs: 60, handshakesPerAddressMax: 256 } });
  const hello = makeHello(master, 'test', randomBytes(32));
  const sockets = await Promise.all(
    Array.from({ length: helloBytes }, async (_, length) => {
      const { socket, closed } = await rawSocket(node.transport.port);
      socket.write(hello.subarray(0, length));
      return closed;
    }),
  );
  assert.deepEqual(new Set(sockets), new Set([0]));
  assert.equal(counterOf(node, 'rejected.handshakeTimeout'), helloBytes);
  await assertUnharmed(node);
});

test('half-open handshakes are bounded, in total and per address', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { handshakesPerAddressMax: 3, handshakeMs: 200 } });
  const sockets = await Promise.all(Array.from({ length: 10 }, () => rawSocket(node.transport.port)));
  await waitUntil(() => counterOf(node, 'rejected.handshakeLimit') === 7, 'seven are rejected at once');
  await Promise.all(sockets.map(({ closed }) => closed));
  assert.equal(counterOf(node, 'rejected.handshakeTimeout'), 3);
  await assertUnharmed(node);
});

/** A proxy in front of a node that records the bytes to it, and may change or drop them. */
async function startProxy(
  node: TransportTestNode,
  change: (chunk: Buffer, index: number, back: Socket) => Buffer | undefined = (c) => c,
) {
  const toServer: Buffer[] = [];
  const proxy = createServer((client) => {
    const server = connect({ host: '127.0.0.1', port: node.transport.port });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.on('error', () => other.destroy());
      socket.on('close', () => other.destroy());
    }
    client.on('data', (chunk: Buffer) => {
      const changed = change(chunk, toServer.push(chunk) - 1, client);
      if (changed !== undefined) server.write(changed);
    });
    server.on('data', (chunk) => client.write(chunk));
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  after(() => proxy.close());
  const address = proxy.address();
  return { to: { host: '127.0.0.1', port: typeof address === 'object' ? address!.port : 0 }, toServer, proxy };
}

test('a replayed connection is rejected, also by a node that has restarted since', testTimeout, async () => {
  const node = await startTransportNode('n');
  const received: string[] = [];
  const service = {
    ...echo,
    notify: (_from: unknown, body: Uint8Array) => void received.push(Buffer.from(body).toString()),
  };
  node.transport.streams.serve(service);
  const client = await startTransportNode('client');
  const { to, toServer } = await startProxy(node);
  client.transport.streams.notify(to, text('pay 100'));
  await waitUntil(() => received.length === 1, 'the honest message arrives');
  await assertClosedSilently(node, Buffer.concat(toServer));
  assert.equal(counterOf(node, 'rejected.replayed'), 1);
  await node.transport.close();
  const restarted = await startTransportNode('n', { self: { ...node.self, generation: 2 } });
  restarted.transport.streams.serve(service);
  const { socket, closed } = await rawSocket(restarted.transport.port);
  socket.write(Buffer.concat(toServer));
  await closed;
  assert.equal(counterOf(restarted, 'rejected.unauthenticated'), 1);
  assert.deepEqual(received, ['pay 100']);
});

test('a bit that flips in flight closes that connection only', testTimeout, async () => {
  const node = await startTransportNode('n');
  const client = await startTransportNode('client');
  const direct = await startTransportNode('direct');
  assert.equal(codeOf(await sendRequest(direct, node.self, text('x'))), 'ok');
  let isDamaging = false;
  const { to } = await startProxy(node, (chunk) => {
    if (isDamaging) chunk[chunk.length - 20]! ^= 1;
    return chunk;
  });
  assert.equal(codeOf(await sendRequest(client, to, text('fine'))), 'ok');
  isDamaging = true;
  assert.equal(codeOf(await sendRequest(client, to, text('damaged'))), 'NETWORK_TIMEOUT');
  assert.equal(counterOf(node, 'rejected.unauthenticated'), 1);
  assert.equal(codeOf(await sendRequest(direct, node.self, text('x'))), 'ok');
  assert.equal(counterOf(direct, 'connections.established'), 1);
});

test('a hello that is reflected to its sender is rejected', testTimeout, async () => {
  const node = await startTransportNode('n');
  const client = await startTransportNode('client');
  const mirror = await startProxy(node, (chunk, _index, back) => void back.write(chunk));
  assert.equal(codeOf(await sendRequest(client, mirror.to, text('x'))), 'UNREACHABLE');
  const self = await startProxy(client);
  assert.equal(codeOf(await sendRequest(client, self.to, text('x'))), 'UNREACHABLE');
  assert.equal(counterOf(client, 'rejected.replayed'), 1);
  await assertUnharmed(client);
});

test('a frame with the length 0, 1, 2^31-1 or 2^32-1 after a valid hello is rejected', testTimeout, async () => {
  const node = await startTransportNode('n');
  for (const [length, reason] of [
    [0, 'malformed'],
    [1, 'malformed'],
    [2 ** 31 - 1, 'tooLarge'],
    [2 ** 32 - 1, 'tooLarge'],
  ] as const) {
    const before = counterOf(node, `rejected.${reason}`);
    const { socket, closed } = await rawSocket(node.transport.port);
    const prefix = Buffer.alloc(4);
    prefix.writeUInt32BE(length);
    socket.write(Buffer.concat([makeHello(master, 'test', randomBytes(32)), prefix]));
    await closed;
    assert.equal(counterOf(node, `rejected.${reason}`), before + 1, `length ${length}`);
  }
  await assertUnharmed(node);
});

test(
  'a message that the role may not send fails with FORBIDDEN, and the connection stays open',
  testTimeout,
  async () => {
    const admit = (_carrier: unknown, _from: unknown, body: Uint8Array) =>
      Buffer.from(body).toString() === 'vote' ? 'a worker does not vote' : undefined;
    const node = await startTransportNode('n', { admit });
    const client = await startTransportNode('client');
    const outcome = await sendRequest(client, node.self, text('vote'));
    assert.ok(!outcome.ok);
    assert.deepEqual([outcome.error.code, outcome.error.message], ['FORBIDDEN', 'a worker does not vote']);
    client.transport.streams.notify(node.self, text('vote'));
    assert.equal(codeOf(await sendRequest(client, node.self, text('work'))), 'ok');
    assert.equal(counterOf(node, 'rejected.role'), 2);
    assert.equal(counterOf(client, 'connections.established'), 1);
  },
);

test('requests of an identity beyond its rate fail with RATE_LIMITED', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { streamMessagesPerSecond: 20 } });
  const client = await startTransportNode('client');
  const outcomes = await Promise.all(Array.from({ length: 40 }, () => sendRequest(client, node.self, text('x'))));
  const limited = outcomes.filter((outcome) => codeOf(outcome) === 'RATE_LIMITED').length;
  assert.ok(limited >= 15 && limited <= 20, `${limited} of 40`);
  assert.equal(counterOf(node, 'rejected.rateLimited'), limited);
});

test('a member that breaks the protocol loses its connection, counted by reason', testTimeout, async () => {
  const node = await startTransportNode('n');
  node.transport.streams.serve({ ...echo, request: () => undefined });
  const oversize = new Uint8Array(streamWindowBytes / 8);
  const breaches: [string, string, (hostile: MisbehavingPeer) => void][] = [
    ['unknown kind', 'malformed', (hostile) => hostile.send(99, 0, 0, 0)],
    ['kind zero', 'malformed', (hostile) => hostile.send(0, 0, 0, 0)],
    ['cut header', 'malformed', (hostile) => hostile.sendPlain(Buffer.from([1, 2, 3]))],
    ['length beyond the frame', 'malformed', (hostile) => hostile.sendPlain(Buffer.alloc(14, 255).fill(1, 0, 1))],
    ['request id zero', 'malformed', (hostile) => hostile.send(segmentKinds.request, 0, 0, 1_000)],
    [
      'request id in use',
      'malformed',
      (hostile) => {
        hostile.send(segmentKinds.request, 0, 7, 1_000);
        hostile.send(segmentKinds.request, 0, 7, 1_000);
      },
    ],
    [
      'message too large',
      'tooLarge',
      (hostile) => hostile.send(segmentKinds.begin, 0, 1, 2 ** 32 - 1, transferHeaderBytes(segmentKinds.request, 0, 9)),
    ],
    [
      'announcement of a ping',
      'malformed',
      (hostile) => hostile.send(segmentKinds.begin, 0, 1, 9, transferHeaderBytes(segmentKinds.ping, 0, 9)),
    ],
    ['announcement cut off', 'malformed', (hostile) => hostile.send(segmentKinds.begin, 0, 1, 9, Buffer.alloc(3))],
    [
      'part too long',
      'malformed',
      (hostile) => {
        hostile.send(segmentKinds.begin, 0, 1, 9, transferHeaderBytes(segmentKinds.request, 0, 9));
        hostile.send(segmentKinds.part, 0, 1, 0, Buffer.alloc(10));
      },
    ],
    [
      'more credit than spent',
      'malformed',
      (hostile) => {
        hostile.send(segmentKinds.open, 0, 1, 0);
        hostile.send(segmentKinds.credit, 0, 1, 2 ** 31);
      },
    ],
    [
      'stream opened twice',
      'malformed',
      (hostile) => {
        hostile.send(segmentKinds.open, 0, 1, 0);
        hostile.send(segmentKinds.open, 0, 1, 0);
      },
    ],
    [
      'data after the end',
      'malformed',
      (hostile) => {
        hostile.send(segmentKinds.open, 0, 1, 0);
        hostile.send(segmentKinds.end, 0, 1, 0);
        hostile.send(segmentKinds.data, 0, 1, 0, oversize);
      },
    ],
    [
      'session announcement cut off',
      'malformed',
      (hostile) => hostile.send(segmentKinds.session, 0, 0, 0, Buffer.from([2, 1])),
    ],
  ];
  for (const [name, reason, breach] of breaches) {
    const before = counterOf(node, `rejected.${reason}`);
    const hostile = await MisbehavingPeer.join(node);
    breach(hostile);
    await hostile.closed;
    assert.equal(counterOf(node, `rejected.${reason}`), before + 1, name);
  }
  node.transport.streams.serve(echo);
  await assertUnharmed(node);
});

test('random segments of a member end only its own connection', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { handshakesPerAddressMax: 256 } });
  const random = new Random('hostile segments');
  let hostile = await MisbehavingPeer.join(node);
  for (let i = 0; i < 2_000; i++) {
    if (hostile.socket.destroyed) hostile = await MisbehavingPeer.join(node);
    const body = random.bytes(random.below(40));
    hostile.send(random.below(19), random.below(4), random.below(8), random.below(3) * 7, body);
    if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  hostile.socket.destroy();
  await hostile.closed;
  await assertUnharmed(node);
});

test('a connection of a node to itself is rejected', testTimeout, async () => {
  const node = await startTransportNode('n');
  assert.equal(codeOf(await sendRequest(node, node.self, text('me?'))), 'UNREACHABLE');
  const twin = await MisbehavingPeer.join(node, { id: node.self.id });
  await twin.closed;
  assert.equal(counterOf(node, 'rejected.self') >= 1, true);
});

test('an earlier generation of a node is rejected while a later one is connected', testTimeout, async () => {
  const node = await startTransportNode('n');
  const self = identity('hostile');
  const later = await MisbehavingPeer.join(node, { id: self.id, generation: 5 });
  await waitUntil(() => counterOf(node, 'connections.established') === 1, 'the later one is connected');
  const earlier = await MisbehavingPeer.join(node, { id: self.id, generation: 4 });
  await earlier.closed;
  assert.equal(counterOf(node, 'rejected.staleGeneration'), 1);
  const latest = await MisbehavingPeer.join(node, { id: self.id, generation: 6 });
  await later.closed;
  latest.socket.destroy();
});
