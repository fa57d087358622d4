/** Places in the owner of a container and its replicas, from admission to the dedup table. */
import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/base/errors.ts';
import { fenceOf, fenceParts } from '../../../src/base/fence.ts';
import { type HostingHarness, type StartedCall, opened, settle } from '../containers/hosting-harness.ts';
import { ReplicationTestCluster } from '../containers/replication-cluster.ts';
import type { Ending, Place } from './place.ts';

const value = new Uint8Array([1]);

function replicated(seed: string): ReplicationTestCluster {
  const world = new ReplicationTestCluster(seed);
  for (const name of ['a', 'b', 'c']) world.start(name);
  world.create(0, ['a', 'b']);
  world.until('it is open', () => world.node('a').opened.has(0));
  world.until('its replicas are in sync', () => world.inSyncNames() === 'ab');
  return world;
}

/** `k` is committed at `a` and durable at `b`; `a` has not acknowledged it. */
function storedAtReplica(seed: string) {
  const world = replicated(seed);
  const ended: { outcome: Outcome<void> | undefined } = { outcome: undefined };
  const { log } = world.node('a').opened.get(0) ?? assert.fail('a has not opened it');
  log.commit([{ key: 'k', value }], (outcome) => (ended.outcome = outcome));
  world.until('b has it', () => world.state('b').has('k'));
  assert.equal(ended.outcome, undefined, 'it was acknowledged too early for this test');
  return { world, log, ended };
}

function stateOf(harness: HostingHarness): boolean {
  return harness.disk(0).size > 0;
}

function ending(harness: HostingHarness, { outcome }: StartedCall): Ending {
  return { outcome, hasEffect: stateOf(harness) };
}

/** Reopens the container under the next fence, from its disk. */
function reopen(harness: HostingHarness): void {
  const { term, index } = fenceParts(harness.record().fence);
  harness.change({ fence: fenceOf(term, index + 1), opening: 'restart', phase: 'opening' });
  harness.run(10);
}

export const containerPlaces: readonly Place[] = [
  {
    place: 'commit: durable at a replica, then fenced by another owner',
    stateChanged: 'maybe',
    run: () => {
      const { world, ended } = storedAtReplica('fenced');
      world.assignOwner(0, 'b');
      world.until('the commit ends', () => ended.outcome !== undefined);
      world.until('b opens it', () => world.node('b').opened.has(0));
      return { outcome: ended.outcome, hasEffect: world.state('b').has('k') };
    },
  },
  {
    place: 'commit: refused because the container closes, before it was appended',
    stateChanged: 'no',
    run: () => {
      const { world, log } = storedAtReplica('closing');
      let outcome: Outcome<void> | undefined;
      log.close(() => {});
      log.commit([{ key: 'late', value }], (ended) => (outcome = ended));
      world.until('the commit ends', () => outcome !== undefined);
      world.run(1_000);
      return { outcome, hasEffect: world.state('a').has('late') || world.state('b').has('late') };
    },
  },
  {
    place: 'commit: the disk of the owner is full, and no replica has it',
    stateChanged: 'no',
    run: () => {
      const world = new ReplicationTestCluster('full');
      world.start('a');
      world.create(0, ['a']);
      world.until('it is open', () => world.node('a').opened.has(0));
      world.node('a').disk.change({ full: true });
      const outcome = world.commit('a', 0, { k: '1' });
      return { outcome, hasEffect: world.state('a').has('k') };
    },
  },
  {
    place: 'reply: the lease has expired when the commit is durable',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened();
      harness.commitsEnd = false;
      const call = harness.call('add', [1]);
      harness.leaseEndsSilently();
      harness.log.end();
      return ending(harness, call);
    },
  },
  {
    place: 'reply: the lease ends while the commit is in flight',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened();
      harness.commitsEnd = false;
      const call = harness.call('add', [1]);
      harness.lease(false);
      harness.log.end();
      return ending(harness, call);
    },
  },
  {
    place: 'reply: the lease ends and returns while the method runs',
    stateChanged: 'maybe',
    run: async () => {
      const { harness, gates } = opened();
      const call = harness.call('addSlowly', [1]);
      harness.lease(false);
      harness.lease(true);
      gates[0]?.open();
      await settle();
      harness.run(10);
      return ending(harness, call);
    },
  },
  {
    place: 'reply: too many duplicates wait for a running call',
    stateChanged: 'maybe',
    run: async () => {
      const { harness, gates } = opened({ waitersMax: 1 });
      harness.call('addSlowly', [1], { counter: 1 });
      const again = harness.call('addSlowly', [1], { counter: 1 });
      gates[0]?.open();
      await settle();
      harness.run(10);
      return ending(harness, again);
    },
  },
  {
    place: 'reply: the lease ends before the call has its turn',
    stateChanged: 'no',
    run: async () => {
      const { harness, gates } = opened();
      harness.call('addSlowly', [1]);
      const call = harness.call('add', [1]);
      harness.lease(false);
      gates[0]?.fail(new Error('no'));
      await settle();
      harness.run(10);
      return { outcome: call.outcome, hasEffect: false };
    },
  },
  {
    place: 'admission: the owner holds no lease',
    stateChanged: 'no',
    run: () => {
      const { harness } = opened();
      harness.lease(false);
      return ending(harness, harness.call('add', [1]));
    },
  },
  {
    place: 'takeover: the container closes while the commit becomes durable without an acknowledgement',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened();
      harness.commitsEnd = false;
      const call = harness.call('add', [1]);
      const { log } = harness;
      log.applyUnacknowledged(1);
      log.lost('another owner');
      harness.remove();
      return ending(harness, call);
    },
  },
  {
    place: 'takeover: another owner is recorded before the call has its turn',
    stateChanged: 'no',
    run: () => {
      const { harness } = opened();
      const blocked = harness.call('addSlowly', [1]);
      const call = harness.call('add', [1]);
      harness.remove();
      assert.equal(blocked.outcome?.ok, false);
      return ending(harness, call);
    },
  },
  {
    place: 'dedup hit: a refusal of the method is repeated',
    stateChanged: 'no',
    run: () => {
      const { harness } = opened();
      harness.call('refuse', [], { counter: 1 });
      harness.run();
      return { outcome: harness.call('refuse', [], { counter: 1 }).outcome, hasEffect: false };
    },
  },
  {
    place: 'dedup hit after a restart: a refusal of the method is repeated',
    stateChanged: 'no',
    run: () => {
      const { harness } = opened();
      harness.call('refuse', [], { counter: 1 });
      harness.run();
      reopen(harness);
      return { outcome: harness.call('refuse', [], { counter: 1 }).outcome, hasEffect: false };
    },
  },
  {
    place: 'dedup trimmed: the call has run, and its result is dropped',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened({ dedupResultsMax: 1 });
      for (const counter of [1, 2, 3]) harness.call('add', [1], { counter });
      harness.run();
      return ending(harness, harness.call('add', [1], { counter: 1 }));
    },
  },
  {
    place: 'dedup trimmed: the call has run, and its caller no longer waits for it',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened();
      for (const counter of [1, 2]) harness.call('add', [1], { counter, lowestPending: counter });
      harness.run();
      return ending(harness, harness.call('add', [1], { counter: 1 }));
    },
  },
  {
    place: 'restart: the call has run in an earlier activation, and its result is dropped',
    stateChanged: 'maybe',
    run: () => {
      const { harness } = opened({ dedupResultsMax: 1 });
      for (const counter of [1, 2, 3]) harness.call('add', [1], { counter });
      harness.run();
      reopen(harness);
      return ending(harness, harness.call('add', [1], { counter: 1 }));
    },
  },
];
