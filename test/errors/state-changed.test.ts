/**
 * "Nothing happened" is a promise. Each row stops one place on the way of a call or write between the effect and its
 * answer, and compares what the error says with what has happened. Most rows run the real parts on virtual time.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Outcome, RemusterError, type StateChanged, failure, success } from '../../src/base/errors.ts';
import { fenceOf, fenceParts } from '../../src/base/fence.ts';
import { formatCallId } from '../../src/base/ids.ts';
import { Random } from '../../src/base/random.ts';
import { type RegistryTransaction, onlyKey } from '../../src/base/registry.ts';
import { RegistryClient } from '../../src/registry/client/registry-client.ts';
import { RequestDedup } from '../../src/registry/replica/request-dedup.ts';
import { decodeMessage, encodeMessage } from '../../src/messages/catalogue.ts';
import { routeCallReplyOf } from '../../src/containers/calls/call-messages.ts';
import { FakeCluster, counter, opened as openedSession } from '../fakes/fake-cluster.ts';
import { FakeConsensusGroup, nodeIdOf } from '../fakes/fake-consensus-group.ts';
import { CallHarness } from '../support/containers/call-harness.ts';
import { type HostingHarness, type PendingCall, opened, settle } from '../support/containers/hosting-harness.ts';
import { ReplicationTestCluster } from '../support/containers/replication-cluster.ts';
import { threeVoters } from '../support/consensus/consensus-calls.ts';

type Ending = { readonly outcome: Outcome<unknown> | undefined; readonly happened: boolean };
type Place = { readonly place: string; readonly says: StateChanged; run(): Ending | Promise<Ending> };

const value = new Uint8Array([1]);

function replicated(seed: string): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed);
  for (const name of ['a', 'b', 'c']) world.start(name);
  world.create(0, ['a', 'b']);
  world.until('it is open', () => world.node('a').opened.has(0));
  world.until('its replicas are in sync', () => world.inSyncNames() === 'ab');
  return world;
}

/** `k` is written at `a`, and stands on the disk of `b`; `a` has not acknowledged it. */
function storedAtReplica(seed: string) {
  const world = replicated(seed);
  const ended: { outcome: Outcome<void> | undefined } = { outcome: undefined };
  const { log } = world.node('a').opened.get(0) ?? assert.fail('a has not opened it');
  log.commit([{ key: 'k', value }], (outcome) => (ended.outcome = outcome));
  world.until('b has it', () => world.state('b').has('k'));
  assert.equal(ended.outcome, undefined, 'it was acknowledged too early for this test');
  return { world, log, ended };
}

function stateOf(scene: HostingHarness): boolean {
  return scene.disk(0).size > 0;
}

function ending(scene: HostingHarness, { outcome }: PendingCall): Ending {
  return { outcome, happened: stateOf(scene) };
}

/** The owner runs the call, and its reply is lost with the connection. */
function ranWithoutReply(timeoutMs = 20_000) {
  const scene = new CallHarness(['a', 'b', 'c'], 3);
  scene.loses = (kind) => kind === 'called';
  const call = scene.call('a', { route: { id: 1 }, timeoutMs });
  scene.advance(5);
  assert.equal(scene.ran.length, 1);
  const end = (): Ending => ({ outcome: call.endings[0]?.outcome, happened: scene.ran.length > 0 });
  return { scene, end };
}

function registry(loses: (answers: number) => boolean) {
  const cluster = new FakeConsensusGroup(3);
  cluster.lead(cluster.managers[0]);
  const self = { id: nodeIdOf(100), generation: 1 };
  const parts = { clock: cluster.clock, random: new Random('client'), self, managers: () => cluster.peers };
  const client = new RegistryClient({ ...parts, send: cluster.askAs(self) });
  let asked = 0;
  cluster.loses = () => loses(++asked);
  const put: RegistryTransaction = { compare: [], then: [{ kind: 'put', key: 'k', value }], otherwise: [] };
  const end = (timeoutMs: number): Ending => {
    let outcome: Outcome<unknown> | undefined;
    client.transact(put, { timeoutMs }, (ended) => (outcome = ended));
    cluster.run(timeoutMs + 1_000);
    const written = cluster.managers.some(({ replica }) => replica.keyspace.range(onlyKey('k'), 1).entries.length > 0);
    return { outcome, happened: written };
  };
  return { cluster, end };
}

const numbered = { client: nodeIdOf(7), generation: 2 };

/** Two writes have run; the answer of the first is kept no longer. */
function dedupOfWrites(limits: { readonly answerBytesMax?: number } = {}): RequestDedup {
  const memory = new RequestDedup(limits);
  for (const counter of [1, 2]) {
    assert.equal(memory.resultOf({ ...numbered, counter, lowest: 1 }), undefined);
    memory.record({ ...numbered, counter, lowest: 1 }, counter, { kind: 'registryDone' });
  }
  return memory;
}

function refusal(memory: RequestDedup, request: Parameters<RequestDedup['resultOf']>[0]): Ending {
  const answer = memory.resultOf(request);
  assert.equal(answer?.kind, 'registryRefusal');
  return { outcome: failure('INTERNAL', answer.code, answer.stateChanged), happened: true };
}

async function clientCall(cluster: FakeCluster): Promise<Ending> {
  const session = await openedSession(cluster, { requestTimeoutMs: 3_000, retryTimeoutMs: 2_000 });
  const ended = await cluster.until(
    session
      .pool(counter, 'visits')
      .hash('x')
      .add(1)
      .then(
        () => success(undefined),
        (error: unknown) => ({ ok: false as const, error: error as RemusterError }),
      ),
  );
  return { outcome: ended, happened: cluster.ran.length > 0 };
}

const places: readonly Place[] = [
  {
    place: 'commit: durable at a replica, then another owner fences it',
    says: 'maybe',
    run: () => {
      const { world, ended } = storedAtReplica('fenced');
      world.give(0, 'b');
      world.until('the commit ends', () => ended.outcome !== undefined);
      world.until('b opens it', () => world.node('b').opened.has(0));
      return { outcome: ended.outcome, happened: world.state('b').has('k') };
    },
  },
  {
    place: 'commit: refused because the container closes, before it was appended',
    says: 'no',
    run: () => {
      const { world, log } = storedAtReplica('closing');
      let outcome: Outcome<void> | undefined;
      log.close(() => {});
      log.commit([{ key: 'late', value }], (ended) => (outcome = ended));
      world.until('the commit ends', () => outcome !== undefined);
      world.run(1_000);
      return { outcome, happened: world.state('a').has('late') || world.state('b').has('late') };
    },
  },
  {
    place: 'commit: the disk of the owner is full, and no replica has seen it',
    says: 'no',
    run: () => {
      const world = new ReplicationTestCluster('full');
      world.start('a');
      world.create(0, ['a']);
      world.until('it is open', () => world.node('a').opened.has(0));
      world.node('a').disk.change({ full: true });
      const outcome = world.commit('a', 0, { k: '1' });
      return { outcome, happened: world.state('a').has('k') };
    },
  },
  {
    place: 'reply: the lease has ended when the commit is durable',
    says: 'maybe',
    run: () => {
      const { scene } = opened();
      scene.commitsEnd = false;
      const call = scene.call('add', [1]);
      scene.leaseEndsSilently();
      scene.log.end();
      return ending(scene, call);
    },
  },
  {
    place: 'reply: the lease ends while the commit is on its way',
    says: 'maybe',
    run: () => {
      const { scene } = opened();
      scene.commitsEnd = false;
      const call = scene.call('add', [1]);
      scene.lease(false);
      scene.log.end();
      return ending(scene, call);
    },
  },
  {
    place: 'reply: the lease ends and returns while the method runs',
    says: 'maybe',
    run: async () => {
      const { scene, gates } = opened();
      const call = scene.call('addSlowly', [1]);
      scene.lease(false);
      scene.lease(true);
      gates[0]?.open();
      await settle();
      scene.run(10);
      return ending(scene, call);
    },
  },
  {
    place: 'reply: the lease ends before the call has its turn',
    says: 'no',
    run: async () => {
      const { scene, gates } = opened();
      scene.call('addSlowly', [1]);
      const call = scene.call('add', [1]);
      scene.lease(false);
      gates[0]?.fail(new Error('no'));
      await settle();
      scene.run(10);
      return { outcome: call.outcome, happened: false };
    },
  },
  {
    place: 'admission: the owner holds no lease',
    says: 'no',
    run: () => {
      const { scene } = opened();
      scene.lease(false);
      return ending(scene, scene.call('add', [1]));
    },
  },
  {
    place: 'takeover: the container closes while the commit reaches the disk unheard',
    says: 'maybe',
    run: () => {
      const { scene } = opened();
      scene.commitsEnd = false;
      const call = scene.call('add', [1]);
      const { log } = scene;
      log.applyUnacknowledged(1);
      log.lost('another owner');
      scene.remove();
      return ending(scene, call);
    },
  },
  {
    place: 'takeover: another owner is named before the call has its turn',
    says: 'no',
    run: () => {
      const { scene } = opened();
      const blocked = scene.call('addSlowly', [1]);
      const call = scene.call('add', [1]);
      scene.remove();
      assert.equal(blocked.outcome?.ok, false);
      return ending(scene, call);
    },
  },
  {
    place: 'dedup hit: a refusal of the method is repeated',
    says: 'no',
    run: () => {
      const { scene } = opened();
      scene.call('refuse', [], { counter: 1 });
      scene.run();
      return { outcome: scene.call('refuse', [], { counter: 1 }).outcome, happened: false };
    },
  },
  {
    place: 'dedup hit after a restart: a refusal of the method is repeated',
    says: 'no',
    run: () => {
      const { scene } = opened();
      scene.call('refuse', [], { counter: 1 });
      scene.run();
      reopen(scene);
      return { outcome: scene.call('refuse', [], { counter: 1 }).outcome, happened: false };
    },
  },
  {
    place: 'dedup trimmed: the call has run, and its answer is forgotten',
    says: 'maybe',
    run: () => {
      const { scene } = opened({ dedupResultsMax: 1 });
      for (const counter of [1, 2, 3]) scene.call('add', [1], { counter });
      scene.run();
      return ending(scene, scene.call('add', [1], { counter: 1 }));
    },
  },
  {
    place: 'dedup trimmed: the call has run, and its caller has said that it is over',
    says: 'maybe',
    run: () => {
      const { scene } = opened();
      for (const counter of [1, 2]) scene.call('add', [1], { counter, lowest: counter });
      scene.run();
      return ending(scene, scene.call('add', [1], { counter: 1 }));
    },
  },
  {
    place: 'restart: the call has run in a former life, and its answer is forgotten',
    says: 'maybe',
    run: () => {
      const { scene } = opened({ dedupResultsMax: 1 });
      for (const counter of [1, 2, 3]) scene.call('add', [1], { counter });
      scene.run();
      reopen(scene);
      return ending(scene, scene.call('add', [1], { counter: 1 }));
    },
  },
  {
    place: 'forward: no owner could be asked at all',
    says: 'no',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.own(1, undefined);
      const call = scene.call('a', { route: { id: 1 }, timeoutMs: 2_000 });
      scene.advance(3_000);
      return { outcome: call.endings[0]?.outcome, happened: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: the reply is lost, and the owner goes',
    says: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      scene.kill('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: the reply is lost, and the pool is deleted',
    says: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      for (const { table } of scene.seats) table.known.clear();
      scene.sever('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: the reply is lost, and the next owner does not know the method',
    says: 'maybe',
    run: () => {
      const { scene, end } = ranWithoutReply();
      scene.loses = () => false;
      scene.seat('c').refuses = 'UNKNOWN_METHOD';
      scene.own(1, 'c');
      scene.sever('b');
      scene.advance(60_000);
      return end();
    },
  },
  {
    place: 'forward: a node answers what the owner has told it',
    says: 'no',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.seat('b').manner = (_call, _run, done) => void done(failure('PRECONDITION', 'not now', 'no'));
      const call = scene.call('a', { route: { id: 1 } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, happened: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: of a range some have run',
    says: 'maybe',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      scene.seat('c').refuses = 'FORBIDDEN';
      const call = scene.call('a', { route: { broadcast: true } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, happened: scene.ran.length > 0 };
    },
  },
  {
    place: 'forward: all have run, and what is made of their results fails',
    says: 'maybe',
    run: () => {
      const scene = new CallHarness(['a', 'b', 'c'], 3);
      const aggregate = (): never => {
        throw new RemusterError('BAD_ARGUMENT', 'no');
      };
      scene.seat('a').definitions.set('counter', { name: 'counter', methods: { add: { run: () => 1, aggregate } } });
      const call = scene.call('a', { route: { broadcast: true } });
      scene.advance(5);
      return { outcome: call.endings[0]?.outcome, happened: scene.ran.length > 0 };
    },
  },
  {
    place: 'client: the first node has it run and goes, the next ones refuse',
    says: 'maybe',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, call, reply) => {
        if (cluster.ran.length > 0) reply(failure('RATE_LIMITED'));
        else {
          cluster.run(call);
          reply(failure('NETWORK_TIMEOUT'));
        }
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place: 'client: the first node has it run and goes, the next one does not know the pool',
    says: 'maybe',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, call, reply) => {
        if (cluster.ran.length > 0) reply(success(encodeMessage(routeCallReplyOf(failure('UNKNOWN_POOL')))));
        else {
          cluster.run(call);
          reply(failure('NETWORK_TIMEOUT'));
        }
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place: 'client: every node refuses at once',
    says: 'no',
    run: () => {
      const cluster = new FakeCluster(3);
      cluster.injectFault = (_node, _call, reply) => {
        reply(failure('RATE_LIMITED'));
        return 'handled';
      };
      return clientCall(cluster);
    },
  },
  {
    place: 'registry: the write is agreed, and its answers are lost',
    says: 'maybe',
    run: () => registry((asked) => asked % 2 === 0).end(2_000),
  },
  {
    place: 'registry: the write is agreed, its answer is lost, and then nobody leads',
    says: 'maybe',
    run: () => {
      const { cluster, end } = registry((asked) => {
        if (asked === 2) cluster.lead(undefined);
        return asked === 2;
      });
      return end(4_000);
    },
  },
  {
    place: 'registry: nobody leads',
    says: 'no',
    run: () => {
      const { cluster, end } = registry(() => false);
      cluster.lead(undefined);
      return end(1_000);
    },
  },
  {
    place: 'registry dedup trimmed: executed, and its answer is dropped',
    says: 'maybe',
    run: () => refusal(dedupOfWrites({ answerBytesMax: 64 }), { ...numbered, counter: 1, lowest: 1 }),
  },
  {
    place: 'registry dedup trimmed: executed, and given up by its client',
    says: 'maybe',
    run: () => {
      const memory = dedupOfWrites();
      memory.resultOf({ ...numbered, counter: 3, lowest: 3 });
      return refusal(memory, { ...numbered, counter: 1, lowest: 1 });
    },
  },
  {
    place: 'registry restart: executed for a former life of the client',
    says: 'maybe',
    run: () => {
      const memory = dedupOfWrites();
      memory.resultOf({ ...numbered, generation: 3, counter: 1, lowest: 1 });
      return refusal(memory, { ...numbered, counter: 1, lowest: 1 });
    },
  },
  {
    place: 'consensus: the leader has appended and is replaced by one that has the entry',
    says: 'maybe',
    run: () => {
      const { world, leader, others } = threeVoters();
      let outcome: Outcome<unknown> | undefined;
      // Followers get the entry, and the leader never hears of it.
      world.travel = ({ kind }) => (kind === 'appendReply' ? [] : [5]);
      world.voter(leader).host.propose(new TextEncoder().encode('x'), 60_000, (ended) => (outcome = ended));
      world.until('the proposal ends', () => outcome !== undefined);
      world.travel = () => [5];
      world.run(10_000);
      return { outcome, happened: others.some((key) => world.voter(key).replica.items.includes('x')) };
    },
  },
];

/** The same container under the next fence, from what is on its disk. */
function reopen(scene: HostingHarness): void {
  const { term, index } = fenceParts(scene.record().fence);
  scene.change({ fence: fenceOf(term, index + 1), opening: 'restart', phase: 'opening' });
  scene.run(10);
}

describe('what an error says about its effect', () => {
  for (const { place, says, run } of places) {
    test(`${place}: it says ${says}`, async () => {
      const { outcome, happened } = await run();
      assert.ok(outcome !== undefined, 'it has ended');
      assert.ok(!outcome.ok, 'it has failed');
      const { code, stateChanged, message } = outcome.error;
      assert.ok(!(happened && stateChanged === 'no'), `${code} promises that nothing happened, and it did: ${message}`);
      assert.equal(stateChanged, says, `${code}: ${message}`);
      assert.ok(says === 'maybe' || !happened, 'the row itself is right');
    });
  }

  test('a call that runs longer than its retryTimeoutMs is not given up as one that no owner has', () => {
    const scene = new CallHarness(['a', 'b', 'c'], 3);
    const { inHand } = scene.seat('b');
    scene.seat('b').manner = ({ id }, run, done) => {
      inHand.add(formatCallId(id));
      scene.timeline.after(4_000, () => done(success(run())));
      return undefined;
    };
    const call = scene.call('a', { route: { id: 1 }, retryTimeoutMs: 1_000 });
    scene.advance(10_000);
    assert.deepEqual([call.code, scene.ran.length], ['ok', 1]);
  });

  test('an owner that has fallen silent is not said to be missing', () => {
    const { scene, end } = ranWithoutReply(120_000);
    scene.seat('b').isFrozen = true;
    scene.advance(120_000);
    const { outcome } = end();
    assert.ok(outcome !== undefined && !outcome.ok);
    assert.doesNotMatch(outcome.error.message, /no owner had it/);
  });

  test('the wire carries the value of the instance', () => {
    for (const stateChanged of ['no', 'maybe', 'yes'] as const) {
      const error = failure('FENCED', 'why', stateChanged);
      const message = decodeMessage(encodeMessage(routeCallReplyOf(error)));
      assert.ok(message.kind === 'wantedCall');
      assert.equal(message.stateChanged, stateChanged);
    }
  });
});
