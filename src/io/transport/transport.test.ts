/**
 * The whole transport on real sockets: crossing dials, idle and broken connections, rotation of secrets, backpressure.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { after, test } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Done } from '../../base/errors.ts';
import { MisbehavingPeer } from '../../../test/fakes/misbehaving-peer.ts';
import {
  sendRequest,
  realClock,
  codeOf,
  counterOf,
  echo,
  identity,
  testTimeout,
  otherSecret,
  secret,
  startTransportNode,
  text,
  waitUntil,
} from '../../../test/support/io/transport-nodes.ts';
import { segmentKinds } from './mux/segment.ts';
import { openOutboundTransport, openTransport } from './transport.ts';

test('one port number serves datagrams and connections, and the counters count both', testTimeout, async () => {
  const [a, b] = [await startTransportNode('a'), await startTransportNode('b')];
  const received: string[] = [];
  b.transport.datagrams.receive((from, body) => received.push(`${from.name}: ${Buffer.from(body).toString()}`));
  assert.equal(codeOf(await sendRequest(a, b.self, text('over tcp'))), 'ok');
  a.transport.datagrams.send({ ...b.self, port: b.transport.port }, text('over udp'));
  await waitUntil(() => received.length === 1, 'the datagram arrives');
  assert.deepEqual(received, ['a: over udp']);
  // The greeting of the connection announced the session, so no challenge was needed.
  assert.equal(counterOf(b, 'rejected.unproven'), 0);
  assert.ok(counterOf(b, 'bytes.received') > 0 && counterOf(b, 'messages.received') === 1);
});

test(
  'without a secret only loopback is allowed; weak secrets and unchecked host names are refused',
  testTimeout,
  async () => {
    const options = {
      self: identity('a'),
      cluster: 'test',
      bind: { host: '0.0.0.0', port: 0 },
      secrets: { current: undefined, previous: [] },
      admit: () => undefined,
      clock: realClock,
      log: () => undefined,
    };
    await assert.rejects(openTransport(options), (error) => isRemusterError(error, 'WEAK_SECRET'));
    const weak = { ...options, secrets: { current: secret, previous: ['short'] } };
    await assert.rejects(openTransport(weak), (error) => isRemusterError(error, 'WEAK_SECRET'));
    const tls = { certPem: '', keyPem: '', caPem: '', verifyHostname: false };
    const unchecked = { ...options, secrets: { current: secret, previous: [] }, tls };
    await assert.rejects(openTransport(unchecked), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
    const [a, b] = [
      await startTransportNode('a', { secrets: options.secrets }),
      await startTransportNode('b', { secrets: options.secrets }),
    ];
    assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
  },
);

test('a rotation of secrets under traffic fails no request', testTimeout, async () => {
  const nodes = [await startTransportNode('a'), await startTransportNode('b'), await startTransportNode('c')];
  const outcomes: string[] = [];
  let running = true;
  const traffic = nodes.flatMap((from) =>
    nodes
      .filter((to) => to !== from)
      .map(async (to) => {
        while (running) outcomes.push(codeOf(await sendRequest(from, to.self, text('x'))));
      }),
  );
  const everywhere = async (current: string, previous: string[]): Promise<void> => {
    for (const { transport } of nodes) {
      transport.setSecrets({ current, previous });
      const before = outcomes.length;
      await waitUntil(() => outcomes.length > before + 50, 'the traffic continues');
    }
  };
  await everywhere(secret, [otherSecret]);
  await everywhere(otherSecret, [secret]);
  await everywhere(otherSecret, []);
  // A node that starts later knows only the new secret.
  const late = await startTransportNode('late', { secrets: { current: otherSecret, previous: [] } });
  outcomes.push(codeOf(await sendRequest(late, nodes[0]!.self, text('x'))));
  running = false;
  await Promise.all(traffic);
  assert.deepEqual(new Set(outcomes), new Set(['ok']));
  const outdated = await startTransportNode('outdated');
  assert.equal(codeOf(await sendRequest(outdated, nodes[0]!.self, text('x'))), 'UNREACHABLE');
  assert.equal(counterOf(nodes[0]!, 'rejected.unknownKey'), 1);
});

test('an auxiliary connection causes no connection events and is not used by the peer', testTimeout, async () => {
  const [a, b] = [await startTransportNode('a'), await startTransportNode('b')];
  const changes: string[] = [];
  b.transport.streams.watch(({ kind }) => changes.push(kind));
  const callers: string[] = [];
  b.transport.streams.serve({
    ...echo,
    request: (from, body, remainingMs, reply) => {
      callers.push(`${from.name} ${from.generation}`);
      echo.request(from, body, remainingMs, reply);
    },
  });
  const openOutbound = (generation: number) => {
    const transport = openOutboundTransport({
      ...{ cluster: 'test', bind: { host: '127.0.0.1', port: 0 }, clock: realClock, log: () => undefined },
      self: { ...a.self, generation },
      secrets: { current: secret, previous: [] },
      admit: () => undefined,
    });
    after(() => transport.close());
    return { transport: transport as typeof a.transport, self: a.self };
  };
  const first = openOutbound(1);
  assert.equal(codeOf(await sendRequest(first, b.self, text('x'))), 'ok');
  assert.deepEqual(changes, []);
  // The peer dials the node itself, and both connections stay.
  assert.equal(codeOf(await sendRequest(b, a.self, text('x'))), 'ok');
  assert.equal(codeOf(await sendRequest(first, b.self, text('x'))), 'ok');
  assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
  assert.equal(counterOf(b, 'connections.established'), 2);
  assert.deepEqual(changes, ['connected']);
  await first.transport.close();
  const later = openOutbound(2);
  assert.equal(codeOf(await sendRequest(later, b.self, text('x'))), 'ok');
  assert.deepEqual(callers, ['a 1', 'a 1', 'a 1', 'a 2']);
  // An earlier generation is rejected, also on an auxiliary connection.
  const stale = openOutbound(1);
  assert.notEqual(codeOf(await sendRequest(stale, b.self, text('x'))), 'ok');
  assert.equal(counterOf(b, 'rejected.staleGeneration'), 1);
});

test('nodes that dial each other at the same time keep one connection and lose no request', testTimeout, async () => {
  for (let round = 0; round < 5; round++) {
    const [low, high] = [
      await startTransportNode('low', { self: identity('low', { id: nodeIdFrom(new Uint8Array(16).fill(1)) }) }),
      await startTransportNode('high', { self: identity('high', { id: nodeIdFrom(new Uint8Array(16).fill(2)) }) }),
    ];
    const changes: string[] = [];
    low.transport.streams.watch(({ kind }) => changes.push(kind));
    const outcomes = await Promise.all([
      ...Array.from({ length: 50 }, () => sendRequest(low, high.self, text('x'))),
      ...Array.from({ length: 50 }, () => sendRequest(high, low.self, text('y'))),
    ]);
    assert.deepEqual(new Set(outcomes.map(codeOf)), new Set(['ok']));
    assert.equal(codeOf(await sendRequest(low, high.self, text('x'))), 'ok');
    assert.equal(codeOf(await sendRequest(high, low.self, text('y'))), 'ok');
    assert.deepEqual(changes, ['connected']);
    await low.transport.close();
    await high.transport.close();
  }
});

test('a superseded connection closes when no request is in flight on it', testTimeout, async () => {
  const limits = { keepaliveMs: 40 };
  const [low, high] = [
    await startTransportNode('low', { limits, self: identity('low', { id: nodeIdFrom(new Uint8Array(16).fill(1)) }) }),
    await startTransportNode('high', {
      limits,
      self: identity('high', { id: nodeIdFrom(new Uint8Array(16).fill(2)) }),
    }),
  ];
  const held: Done<Uint8Array>[] = [];
  low.transport.streams.serve({ ...echo, request: (_from, _body, _ms, reply) => void held.push(reply) });
  // `localhost` is not the address that the node advertises, so low dials although there is a connection.
  const early = sendRequest(high, low.self, text('held'));
  await waitUntil(() => held.length === 1, 'the request is being served');
  assert.equal(codeOf(await sendRequest(low, { host: 'localhost', port: high.self.port }, text('x'))), 'ok');
  assert.equal(counterOf(low, 'connections.established'), 2);
  held[0]!({ ok: true, value: text('late but not lost') });
  assert.equal(codeOf(await early), 'ok');
  const changes: string[] = [];
  low.transport.streams.watch(({ kind }) => changes.push(kind));
  assert.equal(codeOf(await sendRequest(low, high.self, text('x'))), 'ok');
  assert.deepEqual(changes, []);
});

test('an inbound connection is used for requests to its peer', testTimeout, async () => {
  const [a, b] = [await startTransportNode('a'), await startTransportNode('b')];
  assert.equal(codeOf(await sendRequest(a, b.self, text('there'))), 'ok');
  assert.equal(codeOf(await sendRequest(b, a.self, text('and back'))), 'ok');
  assert.deepEqual([counterOf(a, 'connections.established'), counterOf(b, 'connections.established')], [1, 1]);
});

test('the connection of a peer that does not reply to pings is closed', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { keepaliveMs: 40, silenceMsMax: 150 } });
  const hostile = await MisbehavingPeer.join(node);
  const lost = new Promise<string>((resolve) => {
    node.transport.streams.watch((change) => change.kind === 'disconnected' && resolve(change.reason));
  });
  await hostile.waitForSegment(({ kind }) => kind === segmentKinds.ping);
  hostile.socket.pause();
  assert.equal(await lost, 'no reply to a ping');
});

test('a connection with requests in flight is pinged sooner than an idle one', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { keepaliveMs: 100 } });
  node.transport.streams.serve({ ...echo, request: () => undefined });
  const [idle, busy] = [await MisbehavingPeer.join(node), await MisbehavingPeer.join(node)];
  busy.send(segmentKinds.request, 0, 1, 60_000);
  const pinged = async (peer: MisbehavingPeer, name: string) => {
    await peer.waitForSegment(({ kind }) => kind === segmentKinds.ping);
    return name;
  };
  const both = [pinged(idle, 'idle'), pinged(busy, 'busy')];
  assert.equal(await Promise.race(both), 'busy');
  await Promise.all(both);
});

test('an idle connection is closed by both sides', testTimeout, async () => {
  const limits = { keepaliveMs: 20, idleMsMax: 60 };
  const [a, b] = [await startTransportNode('a', { limits }), await startTransportNode('b', { limits })];
  const lost = new Promise<string>((resolve) => {
    a.transport.streams.watch((change) => change.kind === 'disconnected' && resolve(change.reason));
  });
  assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
  await lost;
  assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
});

test('dialing backs off, and a success resets the backoff', testTimeout, async () => {
  const limits = { backoffMsMin: 100, backoffMsMax: 100 };
  const a = await startTransportNode('a', { limits });
  const gone = await startTransportNode('gone');
  await gone.transport.close();
  const refused: number[] = [];
  a.transport.streams.watch(({ kind }) => kind === 'refused' && refused.push(performance.now()));
  const codes = new Set<string>();
  const endMs = performance.now() + 400;
  while (performance.now() < endMs) codes.add(codeOf(await sendRequest(a, gone.self, text('x'))));
  assert.deepEqual(codes, new Set(['UNREACHABLE']));
  // At most one attempt per half a backoff, however many requests there are.
  assert.ok(refused.length >= 2 && refused.length <= 9, `${refused.length} attempts`);
  const back = await startTransportNode('back', { bind: { host: '127.0.0.1', port: gone.self.port } });
  await waitUntil(() => counterOf(a, 'connections.failed') > 0, 'an attempt has failed');
  for (let code = 'none'; code !== 'ok';) {
    code = codeOf(await sendRequest(a, back.self, text('x')));
    if (code !== 'ok') await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

test('a cancelled or expired request is cancelled at the peer, which ignores its reply', testTimeout, async () => {
  const node = await startTransportNode('n');
  const client = await startTransportNode('client');
  const held: Done<Uint8Array>[] = [];
  node.transport.streams.serve({ ...echo, request: (_from, _body, _ms, reply) => void held.push(reply) });
  const cancelled = new Promise<string>((resolve) => {
    const cancel = client.transport.streams.request(node.self, text('x'), 10_000, (outcome) =>
      resolve(codeOf(outcome)),
    );
    void waitUntil(() => held.length === 1, 'the request is being served').then(cancel);
  });
  assert.equal(await cancelled, 'CANCELLED');
  assert.equal(codeOf(await sendRequest(client, node.self, text('x'), 40)), 'DEADLINE');
  node.transport.streams.serve(echo);
  assert.equal(codeOf(await sendRequest(client, node.self, text('x'))), 'ok');
  for (const reply of held) reply({ ok: true, value: text('too late') });
  assert.equal(counterOf(node, 'replies.ignored'), 2);
});

test(
  'with a full queue notify returns false, request fails with CAPACITY, and drained reports room',
  testTimeout,
  async () => {
    const limits = { sendQueueBytesMax: 100_000 };
    const [a, b] = [await startTransportNode('a', { limits }), await startTransportNode('b')];
    assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
    let taken = 0;
    while (a.transport.streams.notify(b.self, new Uint8Array(20_000))) taken += 1;
    assert.ok(taken >= 5 && taken <= 6, `${taken} taken`);
    assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'CAPACITY');
    await new Promise<void>((resolve) => a.transport.streams.drained(b.self, resolve));
    assert.equal(codeOf(await sendRequest(a, b.self, text('x'))), 'ok');
  },
);

test('a peer that never reads its replies is not read either, and costs bounded memory', testTimeout, async () => {
  const limits = { sendQueueBytesMax: 1_000_000, keepaliveMs: 50, silenceMsMax: 400 };
  const node = await startTransportNode('n', { limits });
  let served = 0;
  node.transport.streams.serve({
    ...echo,
    request: (_from, _body, _ms, reply) => {
      served += 1;
      reply({ ok: true, value: new Uint8Array(30_000) });
    },
  });
  const lost = new Promise<string>((resolve) => {
    node.transport.streams.watch((change) => change.kind === 'disconnected' && resolve(change.reason));
  });
  const hostile = await MisbehavingPeer.join(node);
  hostile.socket.pause();
  for (let id = 1; id <= 4_000; id++) hostile.send(segmentKinds.request, 0, id, 60_000);
  assert.equal(await lost, 'no reply to a ping');
  hostile.socket.destroy();
  // One send queue, and the socket buffers of both sides.
  assert.ok(served < 600, `${served} served`);
});

test('requests beyond the bounds of a connection fail with CAPACITY', testTimeout, async () => {
  const node = await startTransportNode('n', { limits: { requestsInboundMax: 5 } });
  const client = await startTransportNode('client', { limits: { requestsInFlightMax: 8 } });
  assert.equal(codeOf(await sendRequest(client, node.self, text('connect'))), 'ok');
  node.transport.streams.serve({ ...echo, request: () => undefined });
  const outcomes = await Promise.all(Array.from({ length: 12 }, () => sendRequest(client, node.self, text('x'), 100)));
  const codes = outcomes.map(codeOf).toSorted();
  assert.deepEqual(codes, [...Array<string>(7).fill('CAPACITY'), ...Array<string>(5).fill('DEADLINE')]);
  assert.equal(counterOf(node, 'rejected.capacity'), 3);
});

test('a message beyond the limit is refused at the sender', testTimeout, async () => {
  const limits = { messageBytesMax: 100_000 };
  const [a, b] = [await startTransportNode('a', { limits }), await startTransportNode('b', { limits })];
  b.transport.streams.serve({
    ...echo,
    request: (_from, _body, _ms, reply) =>
      reply({ ok: true, value: new Uint8Array(120_000).map(() => Math.random() * 256) }),
  });
  assert.equal(codeOf(await sendRequest(a, b.self, new Uint8Array(100_001))), 'TOO_LARGE');
  assert.throws(
    () => a.transport.streams.notify(b.self, new Uint8Array(100_001)),
    (e) => isRemusterError(e, 'TOO_LARGE'),
  );
  const unsent = await sendRequest(a, b.self, text('answer too large'));
  assert.equal(codeOf(unsent), 'TOO_LARGE');
  assert.equal(!unsent.ok && unsent.error.stateChanged, 'maybe', 'the request was executed');
});

test('a connection to a listener that never replies to the hello is closed at the deadline', testTimeout, async () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const a = await startTransportNode('a', { limits: { handshakeMs: 80 } });
  const address = server.address();
  const to = { host: '127.0.0.1', port: typeof address === 'object' ? address!.port : 0 };
  assert.equal(codeOf(await sendRequest(a, to, text('x'))), 'UNREACHABLE');
  assert.equal(codeOf(await sendRequest(a, to, text('x'), 20)), 'UNREACHABLE');
});

test('a small request overtakes a 10 MB request on the same connection', testTimeout, async () => {
  const [a, b] = [await startTransportNode('a'), await startTransportNode('b')];
  assert.equal(codeOf(await sendRequest(a, b.self, text('connect'))), 'ok');
  const order: string[] = [];
  const body = new Uint8Array(10 * 2 ** 20).map((_, i) => (i * 2_654_435_761) >>> 13);
  const large = sendRequest(a, b.self, body).then((outcome) => order.push(`large ${codeOf(outcome)}`));
  const small = sendRequest(a, b.self, text('small')).then((outcome) => order.push(`small ${codeOf(outcome)}`));
  await Promise.all([large, small]);
  assert.deepEqual(order, ['small ok', 'large ok']);
});

test('a Buffer can be reused after the call, for all sizes and with or without a connection', testTimeout, async () => {
  const [a, b] = [await startTransportNode('a'), await startTransportNode('b')];
  const received: number[] = [];
  b.transport.streams.serve({ ...echo, notify: (_from, body) => void received.push(...new Set(body)) });
  for (const size of [10, 50_000, 200_000]) {
    for (const phase of ['connecting', 'connected']) {
      const body = Buffer.alloc(size, 7);
      const reply = sendRequest(a, b.self, body);
      a.transport.streams.notify(b.self, body);
      body.fill(9);
      const outcome = await reply;
      assert.ok(outcome.ok && outcome.value.every((byte) => byte === 7), `${size} ${phase}`);
    }
  }
  await waitUntil(() => received.length === 6, 'all one-way messages arrive');
  assert.deepEqual(new Set(received), new Set([7]));
});
