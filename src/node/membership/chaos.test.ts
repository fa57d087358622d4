/** The ports of one node in a simulated pair, with chaos in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Datagrams, Identity, Streams } from '../../base/ports.ts';
import { type Boot, SimulatedWorld } from '../../simulation/world/simulated-world.ts';
import { Chaos } from './chaos.ts';

type Program = { identity: Identity; datagrams: Datagrams; streams: Streams; chaos: Chaos; received: string[] };

const boot: Boot<Program> = (ports, { name, index, host }) => {
  const id = nodeIdFrom(new Uint8Array(16).fill(index));
  const identity: Identity = { id, name, host, port: 1, generation: 1, roles: ['worker'], dc: 'dc1' };
  const listening = ports.listen(identity, 'test');
  const chaos = new Chaos(ports.clock);
  const datagrams = chaos.datagrams(listening.datagrams);
  const streams = chaos.streams(listening.streams);
  const received: string[] = [];
  datagrams.receive((from) => received.push(`datagram ${from.name}`));
  streams.serve({
    request: (from, body, _remainingMs, reply) => {
      received.push(`request ${from.name}`);
      reply(success(Uint8Array.from(body)));
    },
    notify: (from) => received.push(`notify ${from.name}`),
    open: () => assert.fail('no streams here'),
  });
  return { identity, datagrams, streams, chaos, received };
};

function pair(): { world: SimulatedWorld<Program>; a: Program; b: Program; exchange: () => string } {
  const world = new SimulatedWorld<Program>({ seed: 'chaos', names: ['a', 'b'], boot, failpoints: false });
  world.startAll();
  const a = world.program('a') as Program;
  const b = world.program('b') as Program;
  const exchange = (): string => {
    let outcome: Outcome<Uint8Array> | undefined;
    a.datagrams.send(b.identity, Uint8Array.of(1));
    a.streams.notify(b.identity, Uint8Array.of(2));
    a.streams.request(b.identity, Uint8Array.of(3), 500, (ended) => (outcome = ended));
    world.advance(1_000);
    assert.ok(outcome !== undefined, 'a request has a deadline');
    return outcome.ok ? 'replied' : outcome.error.code;
  };
  return { world, a, b, exchange };
}

const all = new Set(['datagram a', 'notify a', 'request a']);

test('chaos lets everything pass without a partition', () => {
  const { b, exchange } = pair();
  assert.equal(exchange(), 'replied');
  assert.deepEqual(new Set(b.received), all);
});

test('a sender loses everything to a peer that it cut off, and heals at once', () => {
  const { a, b, exchange } = pair();
  a.chaos.partitionFrom([b.identity]);
  assert.equal(exchange(), 'DEADLINE');
  assert.deepEqual(b.received, []);
  a.chaos.partitionFrom([]);
  assert.equal(exchange(), 'replied');
  assert.deepEqual(new Set(b.received), all);
});

test('a receiver drops everything from a peer that it cut off', () => {
  const { a, b, exchange } = pair();
  b.chaos.partitionFrom([a.identity]);
  assert.equal(exchange(), 'DEADLINE');
  assert.deepEqual(b.received, []);
  assert.deepEqual(b.chaos.cut, [a.identity.id]);
});

test('a request to a cut peer can be cancelled, and ends once', () => {
  const { world, a, b } = pair();
  a.chaos.partitionFrom([b.identity]);
  const ends: string[] = [];
  const cancel = a.streams.request(b.identity, Uint8Array.of(3), 500, (outcome) => {
    ends.push(outcome.ok ? 'replied' : outcome.error.code);
  });
  cancel();
  cancel();
  assert.deepEqual(ends, []);
  world.advance(1_000);
  assert.deepEqual(ends, ['CANCELLED']);
});
