/** Places in the owner of a container and its replicas, from admission to the remembered answer. */
import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/base/errors.ts';
import { fenceOf, fenceParts } from '../../../src/base/fence.ts';
import { type HostingHarness, type PendingCall, opened, settle } from '../containers/hosting-harness.ts';
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

/** The same container under the next fence, from what is on its disk. */
function reopen(scene: HostingHarness): void {
  const { term, index } = fenceParts(scene.record().fence);
  scene.change({ fence: fenceOf(term, index + 1), opening: 'restart', phase: 'opening' });
  scene.run(10);
}

export const containerPlaces: readonly Place[] = [
  {
    place: 'commit: durable at a replica, then another owner fences it',
    says: 'maybe',
    run: () => {
      const { world, ended } = storedAtReplica('fenced');
      world.assignOwner(0, 'b');
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
    place: 'reply: too many requests wait for a call that runs',
    says: 'maybe',
    run: async () => {
      const { scene, gates } = opened({ waitersMax: 1 });
      scene.call('addSlowly', [1], { counter: 1 });
      const again = scene.call('addSlowly', [1], { counter: 1 });
      gates[0]?.open();
      await settle();
      scene.run(10);
      return ending(scene, again);
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
      for (const counter of [1, 2]) scene.call('add', [1], { counter, lowestPending: counter });
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
];
