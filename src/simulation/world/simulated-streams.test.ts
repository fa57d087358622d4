/** Simulated connections under faults; the conformance suite covers them without faults. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Outcome } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Address, ConnectionChange, Datagrams, Identity, StreamService, Streams } from '../../base/ports.ts';
import { SimulatedWorld } from './simulated-world.ts';

type TestNode = {
  readonly identity: Identity;
  readonly streams: Streams;
  readonly datagrams: Datagrams;
  readonly changes: ConnectionChange[];
  readonly received: string[];
};

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value);

function startNodes(clusters: Readonly<Record<string, string>> = {}): SimulatedWorld<TestNode> {
  const world = new SimulatedWorld<TestNode>({
    seed: 'streams',
    names: ['a', 'b', 'c'],
    failpoints: false,
    limits: { queueBytesMax: 10_000 },
    boot: (ports, { name, host, index, boots }) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index));
      const identity: Identity = { id, name, host, port: 7400, generation: boots, roles: ['worker'], dc: 'x' };
      const changes: ConnectionChange[] = [];
      const received: string[] = [];
      const { streams, datagrams } = ports.listen(identity, clusters[name] ?? 'ours');
      streams.serve(echoing(received));
      streams.watch((change) => changes.push(change));
      datagrams.receive((from, body) => received.push(`${from.name} datagram ${text(body)}`));
      return { identity, streams, datagrams, changes, received };
    },
  });
  world.startAll();
  return world;
}

function echoing(received: string[]): StreamService {
  return {
    request: (from, body, _, reply) => {
      received.push(`${from.name} request ${text(body)}`);
      reply({ ok: true, value: bytes(`echo ${text(body)}`) });
    },
    notify: (from, body) => received.push(`${from.name} message ${text(body)}`),
    open: () => ({ chunk: () => undefined, writable: () => undefined, ended: () => undefined }),
  };
}

function nodeOf(world: SimulatedWorld<TestNode>, name: string): TestNode {
  const node = world.program(name);
  assert.ok(node !== undefined);
  return node;
}

function address(world: SimulatedWorld<TestNode>, name: string): Address {
  return { host: world.host(name).address, port: 7400 };
}

function request(
  world: SimulatedWorld<TestNode>,
  from: string,
  to: string,
  timeoutMs = 4_000,
): { ended?: string; atMs?: number } {
  const result: { ended?: string; atMs?: number } = {};
  nodeOf(world, from).streams.request(address(world, to), bytes('hi'), timeoutMs, (outcome: Outcome<Uint8Array>) => {
    assert.equal(result.ended, undefined, 'the callback ran twice');
    result.ended = outcome.ok ? text(outcome.value) : outcome.error.code;
    result.atMs = world.timeline.nowMs;
  });
  return result;
}

const kinds = (changes: readonly ConnectionChange[]): string[] => changes.map(({ kind }) => kind);

it('a request is refused at once by a host whose process is down, and times out at a host without power', () => {
  const world = startNodes();
  world.crash('b', 'kept');
  world.crash('c', 'lost');
  const [refused, silent] = [request(world, 'a', 'b'), request(world, 'a', 'c')];
  world.advance(100);
  assert.equal(refused.ended, 'UNREACHABLE');
  assert.equal(silent.ended, undefined);
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['refused']);
  world.advance(5_000);
  assert.ok(silent.ended === 'UNREACHABLE' || silent.ended === 'DEADLINE');
});

it('a connection is reset when the process of its peer dies, and an open request has an unknown outcome', () => {
  const world = startNodes();
  assert.equal(request(world, 'a', 'b').ended, undefined);
  world.advance(100);
  world.pauseNode('b', 1_000);
  const lost = request(world, 'a', 'b');
  world.advance(10);
  world.crash('b', 'kept');
  world.advance(10);
  assert.equal(lost.ended, 'NETWORK_TIMEOUT');
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected', 'disconnected']);
});

it('a partition holds requests until their deadline, and those that outlast it are answered', () => {
  const world = startNodes();
  request(world, 'a', 'b');
  world.advance(100);
  const undo = world.partition([['a'], ['b', 'c']]);
  const [short, long] = [request(world, 'a', 'b', 1_000), request(world, 'a', 'b', 8_000)];
  world.advance(999);
  assert.deepEqual([short.ended, long.ended], [undefined, undefined]);
  world.advance(1);
  assert.equal(short.ended, 'DEADLINE');
  world.advance(3_000);
  undo();
  world.advance(1_000);
  assert.equal(long.ended, 'echo hi');
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected']);
});

it('both sides close a connection after a long cut, and a new one opens afterwards', () => {
  const world = startNodes();
  request(world, 'a', 'b');
  world.advance(100);
  world.cut('a', 'b');
  const lost = request(world, 'a', 'b', 60_000);
  world.advance(11_000);
  assert.equal(lost.ended, 'NETWORK_TIMEOUT');
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected', 'disconnected']);
  assert.deepEqual(kinds(nodeOf(world, 'b').changes), ['connected', 'disconnected']);
  world.mend('a', 'b');
  const retried = request(world, 'a', 'b');
  world.advance(100);
  assert.equal(retried.ended, 'echo hi');
});

it('a power loss is noticed by silence, or by the reset of the restarted host', () => {
  const world = startNodes();
  for (const [from, to] of [
    ['a', 'b'],
    ['a', 'c'],
  ] as const)
    request(world, from, to);
  world.advance(100);
  world.crash('b', 'lost');
  world.crash('c', 'lost');
  world.start('c');
  world.advance(100);
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected', 'connected']);
  assert.equal(request(world, 'a', 'c').ended, undefined);
  world.advance(100);
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected', 'connected', 'disconnected']);
  world.advance(10_000);
  assert.deepEqual(kinds(nodeOf(world, 'a').changes), ['connected', 'connected', 'disconnected', 'disconnected']);
});

it('messages for a paused peer are bounded, and the sender is notified when the queue drains', () => {
  const world = startNodes();
  const { streams } = nodeOf(world, 'a');
  const to = address(world, 'b');
  world.pauseNode('b', 1_000);
  let queued = 0;
  while (streams.notify(to, new Uint8Array(1_000)) && queued < 100) queued += 1;
  assert.ok(queued >= 9 && queued <= 11, `${queued} queued`);
  let drainedMs = 0;
  streams.drained(to, () => (drainedMs = world.timeline.nowMs));
  const refused = request(world, 'a', 'b');
  world.advance(500);
  assert.equal(refused.ended, 'CAPACITY');
  assert.equal(drainedMs, 0);
  world.advance(1_000);
  assert.ok(drainedMs >= 1_000);
  assert.equal(nodeOf(world, 'b').received.length, queued);
  assert.equal(streams.notify(to, new Uint8Array(1_000)), true);
});

it('neither connections nor datagrams cross between clusters', () => {
  const world = startNodes({ c: 'theirs' });
  const foreign = request(world, 'c', 'a');
  const { datagrams } = nodeOf(world, 'c');
  datagrams.send(nodeOf(world, 'a').identity, bytes('ball'));
  nodeOf(world, 'b').datagrams.send(nodeOf(world, 'a').identity, bytes('ball'));
  world.advance(1_000);
  assert.equal(foreign.ended, 'UNREACHABLE');
  assert.deepEqual(nodeOf(world, 'a').received, ['b datagram ball']);
});

it('a datagram for another id than that of the address is dropped', () => {
  const world = startNodes();
  const [a, b] = [nodeOf(world, 'a'), nodeOf(world, 'b')];
  a.datagrams.send({ ...b.identity, id: a.identity.id }, bytes('lost'));
  a.datagrams.send(b.identity, bytes('found'));
  world.advance(10);
  assert.deepEqual(b.received, ['a datagram found']);
});

it('a body is overwritten after the call, which exposes a receiver that keeps it', () => {
  const world = startNodes();
  let kept: Uint8Array | undefined;
  nodeOf(world, 'b').streams.serve({ ...echoing([]), notify: (_, body) => (kept = body) });
  nodeOf(world, 'a').streams.notify(address(world, 'b'), bytes('mine'));
  world.advance(10);
  assert.deepEqual(kept, new Uint8Array(4).fill(0xdd));
});
