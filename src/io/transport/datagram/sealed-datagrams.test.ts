/** Hostile datagrams between two nodes on an in-memory wire: every rejection is counted by reason. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  identityA,
  identityB,
  DatagramTestNode,
  datagramPair,
  peerOf,
} from '../../../../test/support/io/datagram-nodes.ts';
import { identity, otherSecret, secret, text } from '../../../../test/support/io/transport-nodes.ts';
import { makeKeyRing } from '../crypto/keys.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';
import { replayWindowBits } from '../crypto/replay-window.ts';

/** Two nodes that have announced their sessions to each other, as after a connection. */
function announcedPair(limits: Partial<TransportLimits> = {}) {
  const world = datagramPair(limits);
  world.a.datagrams.learnSessions(world.b.self, world.b.datagrams.sessionAnnouncement());
  world.b.datagrams.learnSessions(world.a.self, world.a.datagrams.sessionAnnouncement());
  return world;
}

/** One datagram from a to b that was delivered and recorded. */
function captured(limits: Partial<TransportLimits> = {}) {
  const world = announcedPair(limits);
  world.a.datagrams.send(peerOf(world.b.self), text('hello'));
  const [packet] = world.wire.run();
  assert.deepEqual(world.b.received, ['a: hello']);
  return { ...world, packet: packet! };
}

test('an announced session needs no challenge', () => {
  const { wire, a, b } = announcedPair();
  for (let i = 0; i < 5; i++) a.datagrams.send(b.self, text(String(i)));
  assert.equal(wire.run().length, 5);
  assert.deepEqual(b.received, ['a: 0', 'a: 1', 'a: 2', 'a: 3', 'a: 4']);
});

test('an unknown session is challenged and proven, and its last datagram is resent', () => {
  const { wire, a, b } = datagramPair();
  a.datagrams.send(peerOf(b.self), text('first'));
  const passed = wire.run();
  assert.deepEqual(b.received, ['a: first']);
  const [datagram, challenge, ...proofAndResend] = passed;
  assert.equal(proofAndResend.length, 2);
  assert.ok(challenge!.bytes.length <= datagram!.bytes.length, 'the challenge is larger than the datagram');
  a.datagrams.send(peerOf(b.self), text('second'));
  assert.equal(wire.run().length, 1);
  assert.deepEqual(b.received, ['a: first', 'a: second']);
  b.datagrams.send(peerOf(a.self), text('back'));
  wire.run();
  assert.deepEqual(a.received, ['b: back']);
});

test('a challenge is not larger than the shortest datagram', () => {
  const { wire, a, b } = datagramPair();
  a.datagrams.send(peerOf(b.self), new Uint8Array(0));
  const [datagram, challenge] = wire.run();
  assert.ok(challenge!.bytes.length <= datagram!.bytes.length);
});

test('a replayed packet is rejected', () => {
  const { b, packet } = captured();
  for (let i = 0; i < 3; i++) b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('replayed'), 3);
  assert.equal(b.received.length, 1);
});

test('a late packet is accepted within the replay window and rejected below it', () => {
  const { wire, a, b } = announcedPair();
  a.datagrams.send(b.self, text('late'));
  a.datagrams.send(b.self, text('in time'));
  const [late, inTime] = wire.packets.splice(0);
  for (let i = 0; i < replayWindowBits - 1; i++) a.datagrams.send(b.self, text('x'));
  wire.run();
  b.datagrams.receivePacket(inTime!.bytes, inTime!.from);
  assert.equal(b.received.at(-1), 'a: in time');
  a.datagrams.send(b.self, text('x'));
  wire.run();
  b.datagrams.receivePacket(late!.bytes, late!.from);
  assert.equal(b.rejected('tooOld'), 1);
});

test('a packet with a flipped bit is rejected and does not use up the counter of the original', () => {
  const { wire, a, b } = announcedPair({ unprovenPerSecond: 1_000_000 });
  a.datagrams.send(b.self, text('bits'));
  const [packet] = wire.packets.splice(0);
  const bits = packet!.bytes.length * 8;
  for (let bit = 0; bit < bits; bit++) {
    const flipped = Buffer.from(packet!.bytes);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    b.datagrams.receivePacket(flipped, packet!.from);
  }
  const reasons = ['version', 'wrongCluster', 'unknownKey', 'wrongRecipient', 'unauthenticated'];
  assert.equal(
    reasons.reduce((sum, reason) => sum + b.rejected(reason), 0),
    bits,
  );
  assert.deepEqual(
    [b.rejected('version'), b.rejected('wrongCluster'), b.rejected('unknownKey'), b.rejected('wrongRecipient')],
    [8, 32, 32, 32],
  );
  assert.deepEqual(wire.packets, [], 'an unauthenticated sender got a reply');
  b.datagrams.receivePacket(packet!.bytes, packet!.from);
  assert.deepEqual(b.received, ['a: bits']);
});

test('truncated, extended, random and oversized packets are rejected without a reply', () => {
  const { wire, b, packet } = captured();
  const lengths = packet.bytes.length;
  for (let length = 0; length < lengths; length++) {
    b.datagrams.receivePacket(Buffer.from(packet.bytes.subarray(0, length)), packet.from);
  }
  // The packet is padded to the minimum, so each truncation is shorter than a datagram can be.
  assert.equal(b.rejected('malformed'), lengths);
  b.datagrams.receivePacket(Buffer.concat([packet.bytes, Buffer.from([0])]), packet.from);
  assert.equal(b.rejected('replayed'), 1);
  b.datagrams.receivePacket(Buffer.alloc(1_401), packet.from);
  b.datagrams.receivePacket(Buffer.alloc(64_000), packet.from);
  assert.equal(b.rejected('tooLarge'), 2);
  b.datagrams.receivePacket(Buffer.alloc(200), packet.from);
  assert.equal(b.rejected('version'), 1);
  b.datagrams.receivePacket(Buffer.from('GET / HTTP/1.1'.padEnd(200)), packet.from);
  assert.equal(b.rejected('version'), 2);
  assert.deepEqual(wire.packets, []);
});

test('a packet for another node and one reflected to its sender are rejected', () => {
  const { wire, a, packet } = captured();
  const c = new DatagramTestNode(wire, identity('c', { port: 3 }));
  c.datagrams.learnSessions(a.self, a.datagrams.sessionAnnouncement());
  c.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(c.rejected('wrongRecipient'), 1);
  a.datagrams.receivePacket(Buffer.from(packet.bytes), packet.to);
  assert.equal(a.rejected('reflected'), 1);
  assert.deepEqual([c.received, a.received, wire.packets], [[], [], []]);
});

test('another cluster name and another secret are rejected, each with its reason', () => {
  const { wire, b } = datagramPair();
  const foreign = new DatagramTestNode(wire, identity('f', { port: 3 }), {}, 'other');
  foreign.datagrams.send(b.self, text('x'));
  const keyless = new DatagramTestNode(wire, identity('k', { port: 4 }), {}, 'test', otherSecret);
  keyless.datagrams.send(b.self, text('x'));
  assert.equal(wire.run().length, 2);
  assert.equal(b.rejected('wrongCluster'), 1);
  assert.equal(b.rejected('unknownKey'), 1);
  assert.deepEqual(b.received, []);
});

test('a message that the role may not send is rejected', () => {
  const { wire, a, b } = announcedPair();
  b.refusal = 'a worker does not vote';
  a.datagrams.send(b.self, text('vote'));
  wire.run();
  assert.equal(b.rejected('role'), 1);
  assert.deepEqual(b.received, []);
});

test('after a restart of the receiver a replay is challenged and never delivered', () => {
  const { wire, a, packet } = captured();
  const again = new DatagramTestNode(wire, { ...identityB, generation: 2 });
  again.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  wire.run();
  assert.equal(again.rejected('unproven'), 1);
  again.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  // The sender has proved its session and resent its last datagram with a new counter; the replay is rejected.
  assert.deepEqual(again.received, ['a: hello']);
  assert.equal(again.rejected('replayed'), 1);
  a.datagrams.send(again.self, text('fresh'));
  wire.run();
  assert.deepEqual(again.received, ['a: hello', 'a: fresh']);
});

test('a packet recorded before its session was announced is rejected', () => {
  const { wire, a, packet } = captured();
  const again = new DatagramTestNode(wire, { ...identityB, generation: 2 });
  again.datagrams.learnSessions(a.self, a.datagrams.sessionAnnouncement());
  again.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(again.rejected('replayed'), 1);
  assert.deepEqual(again.received, []);
});

test('after a restart of the sender packets of its earlier generation are rejected', () => {
  const { wire, b, packet } = captured();
  const again = new DatagramTestNode(wire, { ...identityA, generation: 2 });
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('replayed'), 1);
  b.datagrams.learnSessions(again.self, again.datagrams.sessionAnnouncement());
  b.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  assert.equal(b.rejected('staleGeneration'), 1);
  again.datagrams.send(b.self, text('new generation'));
  wire.run();
  assert.deepEqual(b.received, ['a: hello', 'a: new generation']);
});

test('a new generation does not prove a session of an earlier one', () => {
  const { wire, packet } = captured();
  const [newA, newB] = [
    new DatagramTestNode(wire, { ...identityA, generation: 2 }),
    new DatagramTestNode(wire, { ...identityB, generation: 2 }),
  ];
  newB.datagrams.receivePacket(Buffer.from(packet.bytes), packet.from);
  // The challenge reaches the new generation of a, which does not know that session.
  assert.equal(wire.run().length, 1);
  assert.deepEqual([newA.received, newB.received], [[], []]);
});

test('a replayed challenge and a replayed proof have no effect', () => {
  const { wire, a, b } = datagramPair();
  a.datagrams.send(peerOf(b.self), text('first'));
  const [, challenge, proof] = wire.run();
  a.datagrams.receivePacket(Buffer.from(challenge!.bytes), challenge!.from);
  wire.nowMs += 10;
  b.datagrams.receivePacket(Buffer.from(proof!.bytes), proof!.from);
  assert.equal(b.rejected('replayed'), 1);
  assert.deepEqual(b.received, ['a: first']);
  for (const { to } of wire.packets)
    assert.equal(to.port, b.self.port, 'the proof goes to the peer, not to the source of the challenge');
});

test('unproven senders cannot use up the rate of proven ones', () => {
  const { wire, a, b } = announcedPair({ unprovenPerSecond: 10 });
  const unproven = new DatagramTestNode(wire, identity('s', { port: 9 }), {}, 'test', secret);
  for (let i = 0; i < 100; i++) unproven.datagrams.send(b.self, text('x'));
  for (const { bytes } of wire.packets.splice(0)) {
    bytes.fill(7, 60);
    b.datagrams.receivePacket(bytes, { host: '127.0.0.1', port: 9 });
  }
  assert.equal(b.rejected('unauthenticated'), 10);
  assert.equal(b.rejected('rateLimited'), 90);
  a.datagrams.send(b.self, text('still here'));
  wire.run();
  assert.deepEqual(b.received, ['a: still here']);
});

test('an identity beyond its rate is rejected until the bucket refills', () => {
  const { wire, a, b } = announcedPair({ datagramsPerIdentityPerSecond: 5 });
  for (let i = 0; i < 8; i++) a.datagrams.send(b.self, text('x'));
  wire.run();
  assert.equal(b.received.length, 5);
  assert.equal(b.rejected('rateLimited'), 3);
  wire.nowMs += 1_000;
  a.datagrams.send(b.self, text('later'));
  wire.run();
  assert.equal(b.received.length, 6);
});

test('a session is replaced after its number of messages or time, announced before, and no nonce repeats', () => {
  const { wire, a, b } = announcedPair({ sessionMessagesMax: 3, sessionMsMax: 1_000 });
  const nonces = new Set<string>();
  for (let i = 0; i < 10; i++) {
    a.datagrams.send(b.self, text(String(i)));
    for (const announcement of a.announced.splice(0)) b.datagrams.learnSessions(a.self, announcement);
    for (const { bytes } of wire.run()) nonces.add(bytes.subarray(35, 57).toString('hex'));
  }
  assert.equal(b.received.length, 10);
  assert.equal(b.rejected('unproven'), 0);
  assert.equal(nonces.size, 10);
  wire.nowMs += 1_000;
  a.datagrams.send(b.self, text('an hour later'));
  assert.equal(a.announced.length, 1);
});

test('a rotation of secrets loses no datagram', () => {
  const { wire, a, b } = announcedPair();
  b.ring = makeKeyRing('test', { current: secret, previous: [otherSecret] });
  a.ring = makeKeyRing('test', { current: otherSecret, previous: [secret] });
  a.datagrams.rekey();
  b.datagrams.rekey();
  for (const announcement of a.announced.splice(0)) b.datagrams.learnSessions(a.self, announcement);
  a.datagrams.send(b.self, text('under the new one'));
  wire.run();
  b.ring = makeKeyRing('test', { current: otherSecret, previous: [] });
  b.datagrams.rekey();
  a.datagrams.send(b.self, text('after the old one is gone'));
  wire.run();
  assert.deepEqual(b.received, ['a: under the new one', 'a: after the old one is gone']);
});
