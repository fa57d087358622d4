/** What the simulated connections do under faults. What they promise without faults is in the conformance suite. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Outcome } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Address, ConnectionChange, Datagrams, Identity, StreamService, Streams } from '../../base/ports.ts';
import { SimulatedWorld } from './simulated-world.ts';

type Talker = {
  readonly identity: Identity;
  readonly streams: Streams;
  readonly datagrams: Datagrams;
  readonly changes: ConnectionChange[];
  readonly heard: string[];
};

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytes = (value: string): Uint8Array => new TextEncoder().encode(value);

function talkers(clusters: Readonly<Record<string, string>> = {}): SimulatedWorld<Talker> {
  const world = new SimulatedWorld<Talker>({
    seed: 'streams',
    names: ['a', 'b', 'c'],
    rarities: false,
    limits: { queueBytesMax: 10_000 },
    boot: (ports, { name, host, index, boots }) => {
      const id = nodeIdFrom(new Uint8Array(16).fill(index));
      const identity: Identity = { id, name, host, port: 7400, generation: boots, roles: ['worker'], dc: 'x' };
      const changes: ConnectionChange[] = [];
      const heard: string[] = [];
      const { streams, datagrams } = ports.listen(identity, clusters[name] ?? 'ours');
      streams.serve(echoing(heard));
      streams.watch((change) => changes.push(change));
      datagrams.receive((from, body) => heard.push(`${from.name} throws ${text(body)}`));
      return { identity, streams, datagrams, changes, heard };
    },
  });
  world.startAll();
  return world;
}

function echoing(heard: string[]): StreamService {
  return {
    request: (from, body, _, reply) => {
      heard.push(`${from.name} asks ${text(body)}`);
      reply({ ok: true, value: bytes(`echo ${text(body)}`) });
    },
    notify: (from, body) => heard.push(`${from.name} says ${text(body)}`),
    open: () => ({ chunk: () => undefined, writable: () => undefined, ended: () => undefined }),
  };
}

function talker(world: SimulatedWorld<Talker>, name: string): Talker {
  const found = world.program(name);
  assert.ok(found !== undefined);
  return found;
}

function address(world: SimulatedWorld<Talker>, name: string): Address {
  return { host: world.host(name).address, port: 7400 };
}

function ask(
  world: SimulatedWorld<Talker>,
  from: string,
  to: string,
  timeoutMs = 4_000,
): { ended?: string; atMs?: number } {
  const result: { ended?: string; atMs?: number } = {};
  talker(world, from).streams.request(address(world, to), bytes('hi'), timeoutMs, (outcome: Outcome<Uint8Array>) => {
    assert.equal(result.ended, undefined, 'two endings');
    result.ended = outcome.ok ? text(outcome.value) : outcome.error.code;
    result.atMs = world.timeline.nowMs;
  });
  return result;
}

const kinds = (changes: readonly ConnectionChange[]): string[] => changes.map(({ kind }) => kind);

it('is refused at once by a host whose process is down, and meets silence where the power is gone', () => {
  const world = talkers();
  world.crash('b', 'kept');
  world.crash('c', 'lost');
  const [refused, silent] = [ask(world, 'a', 'b'), ask(world, 'a', 'c')];
  world.advance(100);
  assert.equal(refused.ended, 'UNREACHABLE');
  assert.equal(silent.ended, undefined);
  assert.deepEqual(kinds(talker(world, 'a').changes), ['refused']);
  world.advance(5_000);
  assert.ok(silent.ended === 'UNREACHABLE' || silent.ended === 'DEADLINE');
});

it('resets connections when a process dies: what was asked may have happened', () => {
  const world = talkers();
  assert.equal(ask(world, 'a', 'b').ended, undefined);
  world.advance(100);
  world.pauseNode('b', 1_000);
  const lost = ask(world, 'a', 'b');
  world.advance(10);
  world.crash('b', 'kept');
  world.advance(10);
  assert.equal(lost.ended, 'NETWORK_TIMEOUT');
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected', 'disconnected']);
});

it('holds requests under a partition until their deadline, and answers those that outlast it', () => {
  const world = talkers();
  ask(world, 'a', 'b');
  world.advance(100);
  const undo = world.partition([['a'], ['b', 'c']]);
  const [short, long] = [ask(world, 'a', 'b', 1_000), ask(world, 'a', 'b', 8_000)];
  world.advance(999);
  assert.deepEqual([short.ended, long.ended], [undefined, undefined]);
  world.advance(1);
  assert.equal(short.ended, 'DEADLINE');
  world.advance(3_000);
  undo();
  world.advance(1_000);
  assert.equal(long.ended, 'echo hi');
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected']);
});

it('gives connections up after a long silence on both sides, and makes new ones afterwards', () => {
  const world = talkers();
  ask(world, 'a', 'b');
  world.advance(100);
  world.cut('a', 'b');
  const lost = ask(world, 'a', 'b', 60_000);
  world.advance(11_000);
  assert.equal(lost.ended, 'NETWORK_TIMEOUT');
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected', 'disconnected']);
  assert.deepEqual(kinds(talker(world, 'b').changes), ['connected', 'disconnected']);
  world.mend('a', 'b');
  const again = ask(world, 'a', 'b');
  world.advance(100);
  assert.equal(again.ended, 'echo hi');
});

it('notices a power loss by silence, or by the answer of the next life', () => {
  const world = talkers();
  for (const [from, to] of [
    ['a', 'b'],
    ['a', 'c'],
  ] as const)
    ask(world, from, to);
  world.advance(100);
  world.crash('b', 'lost');
  world.crash('c', 'lost');
  world.start('c');
  world.advance(100);
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected', 'connected']);
  assert.equal(ask(world, 'a', 'c').ended, undefined);
  world.advance(100);
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected', 'connected', 'disconnected']);
  world.advance(10_000);
  assert.deepEqual(kinds(talker(world, 'a').changes), ['connected', 'connected', 'disconnected', 'disconnected']);
});

it('bounds what waits for a peer that takes nothing in, and tells when there is room', () => {
  const world = talkers();
  const { streams } = talker(world, 'a');
  const to = address(world, 'b');
  world.pauseNode('b', 1_000);
  let queued = 0;
  while (streams.notify(to, new Uint8Array(1_000)) && queued < 100) queued += 1;
  assert.ok(queued >= 9 && queued <= 11, `${queued} queued`);
  let drainedMs = 0;
  streams.drained(to, () => (drainedMs = world.timeline.nowMs));
  const refused = ask(world, 'a', 'b');
  world.advance(500);
  assert.equal(refused.ended, 'CAPACITY');
  assert.equal(drainedMs, 0);
  world.advance(1_000);
  assert.ok(drainedMs >= 1_000);
  assert.equal(talker(world, 'b').heard.length, queued);
  assert.equal(streams.notify(to, new Uint8Array(1_000)), true);
});

it('carries nothing between clusters, neither by connection nor by datagram', () => {
  const world = talkers({ c: 'theirs' });
  const foreign = ask(world, 'c', 'a');
  const { datagrams } = talker(world, 'c');
  datagrams.send(talker(world, 'a').identity, bytes('ball'));
  talker(world, 'b').datagrams.send(talker(world, 'a').identity, bytes('ball'));
  world.advance(1_000);
  assert.equal(foreign.ended, 'UNREACHABLE');
  assert.deepEqual(talker(world, 'a').heard, ['b throws ball']);
});

it('drops a datagram for an id that does not live at that address', () => {
  const world = talkers();
  const [a, b] = [talker(world, 'a'), talker(world, 'b')];
  a.datagrams.send({ ...b.identity, id: a.identity.id }, bytes('lost'));
  a.datagrams.send(b.identity, bytes('found'));
  world.advance(10);
  assert.deepEqual(b.heard, ['a throws found']);
});

it('spoils a body after the call, so that whoever keeps it is found out', () => {
  const world = talkers();
  let kept: Uint8Array | undefined;
  talker(world, 'b').streams.serve({ ...echoing([]), notify: (_, body) => (kept = body) });
  talker(world, 'a').streams.notify(address(world, 'b'), bytes('mine'));
  world.advance(10);
  assert.deepEqual(kept, new Uint8Array(4).fill(0xdd));
});
