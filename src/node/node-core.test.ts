/** The core on simulated ports: membership between cores, replies to requests, state across restarts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { wireFormat } from '../base/format-versions.ts';
import type { Outcome } from '../base/errors.ts';
import { nodeIdFrom } from '../base/ids.ts';
import type { Clock, Identity, Streams } from '../base/ports.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';
import { type Boot, SimulatedWorld } from '../simulation/world/simulated-world.ts';
import { bootNode } from './node-core.ts';
import type { NodeCore } from './core/node-core-types.ts';
import { startGeneration } from './boot/node-identity.ts';
import { inlineMembership } from './membership/inline-membership.ts';
import { nodeOptions } from './options/options.ts';
import type { Reachability } from './membership/reachability.ts';

type Program = { core?: NodeCore; streams?: Streams; joined: boolean; readonly pending: Set<object> };

const port = 7_400;

/** The first node is the seed of every node. */
const boot: Boot<Program> = (ports, { name, host, random, log }) => {
  const program: Program = { joined: false, pending: new Set() };
  const clock = observedClock(ports.clock, program.pending);
  const store = ports.openStore('node');
  startGeneration(
    store,
    () => nodeIdFrom(random.fork('id').bytes(16)),
    (raised) => {
      if (!raised.ok) throw raised.error;
      const identity: Identity = { ...raised.value, name, host, port, roles: ['worker'], dc: 'dc1' };
      const { datagrams, streams } = ports.listen(identity, 'test');
      const options = nodeOptions({ join: [{ host: '10.0.0.0', port }] });
      const membership = inlineMembership(datagrams, random, options);
      program.streams = streams;
      program.core = bootNode(
        { clock, streams, store, log, membership },
        { ...options, identity },
        {
          joined: () => (program.joined = true),
          halted: (error) => {
            throw error;
          },
        },
      );
    },
  );
  return program;
};

/** The same clock, with its pending timers visible. */
function observedClock(inner: Clock, pending: Set<object>): Clock {
  const schedule: Clock['schedule'] = (delayMs, run) => {
    const timer = {};
    pending.add(timer);
    const cancel = inner.schedule(delayMs, () => {
      pending.delete(timer);
      run();
    });
    return () => {
      pending.delete(timer);
      cancel();
    };
  };
  return { nowMs: () => inner.nowMs(), wallMs: () => inner.wallMs(), schedule };
}

function clusterOf(names: readonly string[], seed = 'core'): SimulatedWorld<Program> {
  const world = new SimulatedWorld<Program>({ seed, names, boot, failpoints: false });
  world.watch((event) => {
    if (event.kind === 'threw') throw event.error;
  });
  world.startAll();
  return world;
}

function coreOf(world: SimulatedWorld<Program>, name: string): NodeCore {
  const core = world.program(name)?.core;
  assert.ok(core !== undefined, `${name} is not running`);
  return core;
}

function statesSeenBy(world: SimulatedWorld<Program>, name: string): Record<string, string> {
  return Object.fromEntries(
    coreOf(world, name)
      .members()
      .map((member) => [member.name, member.state]),
  );
}

function typesSeenBy(world: SimulatedWorld<Program>, name: string): string[] {
  return coreOf(world, name)
    .events.since(0)
    .map((event) => (typeof event['member'] === 'string' ? `${event.type} ${event['member']}` : event.type));
}

test('nodes with one seed find each other', () => {
  const world = clusterOf(['a', 'b', 'c', 'd']);
  world.advance(5_000);
  for (const name of world.names) {
    assert.ok(world.program(name)?.joined);
    assert.deepEqual(Object.keys(statesSeenBy(world, name)).toSorted(), ['a', 'b', 'c', 'd']);
    assert.deepEqual(new Set(Object.values(statesSeenBy(world, name))), new Set(['alive']));
  }
});

test('a crash is detected, and a restart keeps the id and increments the generation', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(5_000);
  const { id } = coreOf(world, 'c').identity;
  world.crash('c', 'kept');
  world.advance(1_000);
  assert.equal(
    statesSeenBy(world, 'a')['c'],
    'dead',
    'the host refuses connections, so no suspicion timeout is needed',
  );
  world.start('c');
  world.advance(5_000);
  assert.deepEqual(statesSeenBy(world, 'a'), { a: 'alive', b: 'alive', c: 'alive' });
  assert.equal(coreOf(world, 'c').identity.id, id);
  assert.equal(coreOf(world, 'c').identity.generation, 2);
  assert.deepEqual(typesSeenBy(world, 'a').slice(-3), ['member.suspect c', 'member.dead c', 'member.alive c']);
});

test('a host without power is declared dead only after the suspicion timeout', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(5_000);
  world.crash('c', 'lost');
  world.advance(2_000);
  assert.notEqual(statesSeenBy(world, 'a')['c'], 'dead');
  world.advance(20_000);
  assert.equal(statesSeenBy(world, 'a')['c'], 'dead');
  const { id } =
    coreOf(world, 'a')
      .members()
      .find(({ name }) => name === 'c') ?? assert.fail();
  const history = coreOf(world, 'a').memberHistory(id);
  assert.deepEqual(
    history.map(({ type }) => type),
    ['member.alive', 'member.suspect', 'member.dead'],
  );
  assert.match(history.at(-1)?.why ?? '', /no ack of a probe|reported by b/);
});

test('embedded state reaches all members, the newest version wins, and a new generation starts empty', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(3_000);
  const of = (name: string): string | undefined => {
    const { id } = coreOf(world, name).identity;
    const embedded = coreOf(world, 'a').embedded(id);
    const text = embedded?.parts.map(({ role, state }) => `${role} ${Buffer.from(state).toString()}`).join();
    return embedded && `${embedded.generation}: ${text}`;
  };
  coreOf(world, 'b').embed('worker', Buffer.from('4 cores'));
  world.advance(5_000);
  assert.equal(of('b'), '1: worker 4 cores');
  coreOf(world, 'b').embed('worker', Buffer.from('2 cores'));
  coreOf(world, 'b').embed('manager', Buffer.from('leads'));
  world.advance(5_000);
  assert.equal(of('b'), '1: worker 2 cores,manager leads');
  world.crash('b');
  world.start('b');
  world.advance(2_000);
  coreOf(world, 'b').embed('worker', Buffer.from('8 cores'));
  world.advance(8_000);
  assert.equal(of('b'), '2: worker 8 cores');
});

test('reachability requests the view of every member and names members that do not reply', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(5_000);
  const measured = (): Reachability => {
    let result: Reachability | undefined;
    coreOf(world, 'a').reachability((found) => (result = found));
    world.advance(6_000);
    return result ?? assert.fail('there is a deadline');
  };
  const whole = measured();
  assert.deepEqual(whole.unanswered, []);
  assert.equal(whole.hearings.length, 6);
  world.pauseNode('b', 20_000);
  const partial = measured();
  assert.deepEqual(partial.unanswered, ['b']);
  assert.deepEqual(new Set(partial.hearings.map(({ from }) => from)), new Set(['a', 'c']));
});

test('a node that stops leaves in order, and a second stop waits for the first', () => {
  const world = clusterOf(['a', 'b']);
  world.advance(5_000);
  let ends = 0;
  coreOf(world, 'b').stop(() => (ends += 1), 'maintenance');
  coreOf(world, 'b').stop(() => (ends += 1));
  world.advance(1_000);
  assert.equal(ends, 2);
  assert.equal(world.program('b')?.pending.size, 0, 'a timer would keep the process awake');
  assert.equal(statesSeenBy(world, 'a')['b'], 'left');
  assert.deepEqual(typesSeenBy(world, 'a').slice(-1), ['member.left b'], 'and its closed connection is no evidence');
});

test('a node without a live seed finds its cluster through the peers in its store', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(5_000);
  world.crash('a');
  world.crash('c');
  world.advance(1_000);
  world.start('c');
  world.advance(3_000);
  assert.equal(statesSeenBy(world, 'c')['b'], 'alive');
});

test('a node with a full disk stays alive in membership', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(5_000);
  world.host('b').disk.change({ full: true });
  world.crash('c');
  world.start('c');
  world.advance(20_000);
  assert.equal(statesSeenBy(world, 'a')['b'], 'alive');
  assert.ok((coreOf(world, 'b').counters().core['store.writeFailed'] ?? 0) > 0);
});

function sendRequest(world: SimulatedWorld<Program>, from: string, to: string, body: Uint8Array): Outcome<Uint8Array> {
  let reply: Outcome<Uint8Array> | undefined;
  const { host } = coreOf(world, to).identity;
  world.program(from)?.streams?.request({ host, port }, body, 1_000, (outcome) => {
    reply = outcome.ok ? { ok: true, value: Uint8Array.from(outcome.value) } : outcome;
  });
  world.advance(2_000);
  assert.ok(reply !== undefined, 'a request has a deadline');
  return reply;
}

function replyTo(world: SimulatedWorld<Program>, request: Message): Message {
  const outcome = sendRequest(world, 'a', 'b', encodeMessage(request));
  assert.ok(outcome.ok);
  return decodeMessage(outcome.value);
}

test('a node replies to echo and listMembers', () => {
  const world = clusterOf(['a', 'b']);
  world.advance(3_000);
  assert.deepEqual(replyTo(world, { kind: 'echo', payload: Uint8Array.of(1, 2) }), {
    kind: 'echoReply',
    payload: Uint8Array.of(1, 2),
  });
  const list = replyTo(world, { kind: 'listMembers' });
  assert.ok(list.kind === 'listMembersReply');
  assert.deepEqual(list.members.map(({ entry, state }) => `${entry.name} ${state}`).toSorted(), ['a alive', 'b alive']);
});

test('a node rejects malformed messages and messages that are no requests, and counts them', () => {
  const world = clusterOf(['a', 'b', 'c']);
  world.advance(3_000);
  const codeOf = (body: Uint8Array): string => {
    const outcome = sendRequest(world, 'a', 'b', body);
    return outcome.ok ? 'ok' : outcome.error.code;
  };
  assert.equal(codeOf(Uint8Array.of(wireFormat, 2, 3, 4)), 'FORBIDDEN');
  assert.equal(codeOf(encodeMessage({ kind: 'streamPong', generation: 1, incarnation: 1 })), 'UNKNOWN_METHOD');
  assert.deepEqual(coreOf(world, 'b').status().rejected, { unknownTag: 1 });
});

test('the status of a node without a control plane has no invented values', () => {
  const world = clusterOf(['a']);
  world.advance(1_500);
  const status = coreOf(world, 'a').status();
  assert.equal(status.name, 'a');
  assert.equal(status.generation, 1);
  assert.equal(status.joined, true);
  assert.equal(status.leader, null);
  assert.deepEqual(status.containers, []);
  assert.ok(status.uptimeMs >= 1_000 && status.uptimeMs <= 1_500);
});

test('thirty nodes with one seed all find each other', () => {
  const names = Array.from({ length: 30 }, (_, i) => `n${i}`);
  const world = clusterOf(names);
  world.advance(30_000);
  for (const name of names) {
    const states = Object.values(statesSeenBy(world, name));
    assert.equal(states.filter((state) => state === 'alive').length, 30, name);
  }
});
