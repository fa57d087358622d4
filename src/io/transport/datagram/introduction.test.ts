/** Introductions: the first datagrams to a peer are delivered without a challenge, and replays of them never. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { datagramBytesMax } from '../../../base/ports.ts';
import {
  identityA,
  identityB,
  DatagramTestNode,
  datagramPair,
  peerOf,
  type InMemoryWire,
} from '../../../../test/support/io/datagram-nodes.ts';
import { identity, otherSecret, secret, text } from '../../../../test/support/io/transport-nodes.ts';
import { makeKeyRing } from '../crypto/keys.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';

/** Two nodes that know each other's membership entries only, after one introduction that was delivered at once. */
function introduced(limits: Partial<TransportLimits> = {}) {
  const world = datagramPair(limits);
  world.a.datagrams.send(world.b.self, text('hello'));
  const [packet, ...more] = world.wire.run();
  assert.deepEqual([world.b.received, more], [['a: hello'], []]);
  return { ...world, packet: packet! };
}

test('a node that knows the generation of a peer introduces itself without a challenge', () => {
  const { wire, a, b } = introduced();
  for (let i = 0; i < 5; i++) a.datagrams.send(b.self, text(String(i)));
  b.datagrams.send(a.self, text('back'));
  assert.equal(wire.run().length, 6);
  assert.deepEqual(b.received.slice(1), ['a: 0', 'a: 1', 'a: 2', 'a: 3', 'a: 4']);
  assert.deepEqual(a.received, ['b: back']);
  assert.deepEqual([a.rejected('unproven'), b.rejected('unproven')], [0, 0]);
});

test('a lost introduction is repeated once; if both are lost, the session is challenged', () => {
  for (const lost of [1, 5]) {
    const { wire, a, b } = datagramPair();
    for (let i = 0; i < lost; i++) a.datagrams.send(b.self, text('lost'));
    wire.packets.splice(0);
    a.datagrams.send(b.self, text('found'));
    wire.run();
    assert.equal(b.received.at(-1), 'a: found');
    assert.equal(b.rejected('unproven'), lost === 1 ? 0 : 1);
  }
});

test('a replayed introduction is rejected, also by the next generation of the receiver', () => {
  const { wire, b, packet } = introduced();
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('replayed'), 1);
  const again = new DatagramTestNode(wire, { ...identityB, generation: 2 });
  again.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(again.rejected('unproven'), 1);
  assert.deepEqual([b.received, again.received], [['a: hello'], []]);
});

test('a datagram recorded before the introduction is rejected', () => {
  const { wire, a, b } = datagramPair();
  a.datagrams.send(peerOf(b.self), text('recorded'));
  const [recorded] = wire.packets.splice(0);
  a.datagrams.send(b.self, text('hello'));
  wire.run();
  b.datagrams.receivePacket(recorded!.bytes, recorded!.from);
  assert.equal(b.rejected('replayed'), 1);
  assert.deepEqual(b.received, ['a: hello']);
});

test('an introduction of an earlier generation of the sender is rejected', () => {
  const { wire, b, packet } = introduced();
  const [again, fresh] = [
    new DatagramTestNode(wire, { ...identityA, generation: 2 }),
    new DatagramTestNode(wire, { ...identityB, port: 5 }),
  ];
  again.datagrams.send(b.self, text('new generation'));
  fresh.datagrams.learnSessions(again.self, again.datagrams.sessionAnnouncement());
  wire.run();
  for (const node of [b, fresh]) node.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.deepEqual([b.rejected('staleGeneration'), fresh.rejected('staleGeneration')], [1, 1]);
  assert.deepEqual([b.received, fresh.received], [['a: hello', 'a: new generation'], []]);
});

test('a node that has evicted a session accepts no introduction of it any more', () => {
  const { wire, a, b, packet } = introduced({ sessionsMax: 2 });
  for (const port of [3, 4]) b.datagrams.learnSessions(identity(`n${port}`, { port }), otherAnnouncement(wire, port));
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('unproven'), 1);
  assert.deepEqual(b.received, ['a: hello']);
  a.datagrams.send(b.self, text('again'));
  wire.run();
  assert.equal(b.received.at(-1), 'a: again');
});

test('the oldest of many sessions of one generation is evicted, and its replayed introduction is rejected', () => {
  const { wire, a, b, packet } = introduced({ sessionMessagesMax: 1 });
  for (let i = 0; i < 6; i++) {
    a.datagrams.send(b.self, text(String(i)));
    wire.run();
  }
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.received.filter((line) => line === 'a: hello').length, 1);
});

test('a replayed introduction is rejected when a withdrawn secret is accepted again', () => {
  const { b, packet } = introduced();
  b.ring = makeKeyRing('test', { current: otherSecret, previous: [] });
  b.datagrams.rekey();
  b.ring = makeKeyRing('test', { current: otherSecret, previous: [secret] });
  b.datagrams.rekey();
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('unproven'), 1);
  assert.deepEqual(b.received, ['a: hello']);
});

test('a body without room for an introduction is sent without it', () => {
  const { wire, a, b } = datagramPair();
  a.datagrams.send(b.self, new Uint8Array(datagramBytesMax));
  wire.run();
  assert.equal(b.rejected('unproven'), 1);
  assert.equal(b.received.length, 1);
});

function otherAnnouncement(wire: InMemoryWire, port: number): Buffer {
  return new DatagramTestNode(wire, identity(`n${port}`, { port })).datagrams.sessionAnnouncement();
}
