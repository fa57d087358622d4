import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { PlacementTestCluster, settledWorld } from '../../../test/support/placement/placement-cluster.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import { type PoolRecord, readNodeNumber } from '../state/container-records.ts';

describe('a pool', () => {
  test('has its containers and replicas spread evenly', () => {
    const world = settledWorld(3, { containers: 12, copies: 2 });
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => world.countOn(name)),
      [4, 4, 4],
    );
    const copies = [...world.records.keys()].map((text) => world.copies(text).split(' ')[1]);
    for (const name of ['a', 'b', 'c']) assert.equal(copies.filter((copy) => copy === name).length, 4);
    assert.equal(world.eventsOf('container.assigned').length, 12);
    assert.deepEqual(world.eventsOf('pool.created'), ['pool.created p']);
  });

  test('with many containers is created in batches, each container once', () => {
    const world = settledWorld(3, { containers: 350, copies: 1 });
    assert.equal(world.records.size, 350);
    assert.equal(world.eventsOf('container.assigned').length, 350);
    assert.deepEqual(world.eventsOf('pool.created'), ['pool.created p']);
  });

  test('waits for nodes, and has fewer replicas until there are enough nodes', () => {
    const world = new PlacementTestCluster();
    world.add(1);
    world.node('a').setMode('drained');
    world.lead('a');
    world.create('p', { copies: 3 });
    world.run(3_000);
    assert.equal(world.records.size, 0);
    world.node('a').setMode('active');
    world.settle(1);
    world.add(1);
    world.settle(2);
    world.add(1);
    world.settle(3);
    assert.equal(world.countOn('a'), world.records.size, 'a node that joins gets replicas, no containers');
  });

  test('that is deleted while its containers are being created disappears at any timing', () => {
    const facts = { major: 1, minor: 0, module: 'm', moduleVersion: 0, containers: 3, copies: 1 };
    const pool: PoolRecord = { ...facts, durability: 'copies', restart: false, params: null, state: 'active' };
    for (let afterMs = 0; afterMs < 10; afterMs += 0.5) {
      const world = new PlacementTestCluster();
      world.add(2);
      world.lead('a');
      world.run(3_000);
      // Transactions of the leader are delayed: it learns of the deletion before they are refused.
      const { registry } = world.node('a');
      const transact = registry.transact.bind(registry);
      const delayed: typeof transact = (...args) => void world.timeline.after(5, () => transact(...args));
      world.put('p', pool);
      Object.assign(registry, { transact: delayed });
      world.run(afterMs);
      Object.assign(registry, { transact });
      world.put('p', { ...pool, state: 'deleting' });
      Object.assign(registry, { transact: delayed });
      world.run(10);
      const isGone = (): boolean => world.node('a').placer?.view?.pools.get('p')?.record === undefined;
      world.until(() => world.records.size === 0 && isGone(), 10_000, `deleted after ${afterMs} ms`);
    }
  });

  test('is not placed by a new leader on the first node that requests a lease alone', () => {
    const world = new PlacementTestCluster();
    world.add(3);
    world.create('p', { containers: 9, copies: 1 });
    world.node('c').pause();
    world.lead('a');
    world.run(300);
    assert.equal(world.records.size, 0, 'it is unknown whether c is available');
    world.node('c').resume();
    world.settle(1);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => world.countOn(name)),
      [3, 3, 3],
    );
  });

  test('is deleted completely, and can be created again with higher fences', () => {
    const world = settledWorld(2, { containers: 130, copies: 1 });
    const { fence } = world.record('p/7');
    const pool: PoolRecord = { ...world.pool('p'), state: 'deleting' };
    world.put('p', pool);
    world.until(() => world.records.size === 0, 5_000, 'no containers');
    world.run(100);
    const left = world.registry.keyspace.range(keyRanges.containersOf('p'), 10);
    assert.equal(left.entries.length, 0);
    assert.equal(world.registry.keyspace.range(rangeOfPool(), 1).entries.length, 0, 'its record is gone');
    assert.deepEqual(world.eventsOf('pool.deleted'), ['pool.deleted p']);
    const [a, b] = [world.node('a'), world.node('b')];
    const { revision } = world.registry.keyspace;
    const isGranted = [revision - 1, revision].map((seen) => a.placer?.grantServingLease(b.id, b.generation, seen).ok);
    assert.deepEqual(isGranted, [false, true], 'no node keeps serving before it has seen the deletion');
    world.create('p', { containers: 8, copies: 1 });
    world.settle(1);
    assert.ok(world.record('p/7').fence > fence);
  });

  test('finds every worker numbered once, also by the next leader', () => {
    const world = settledWorld(3, { containers: 1, copies: 1 });
    world.lead('b');
    world.add(2);
    world.until(() => numbers(world).length === 5, 3_000, 'five numbers');
    assert.deepEqual(
      numbers(world).toSorted((x, y) => x - y),
      [1, 2, 3, 4, 5],
    );
    world.node('d').kill();
    world.run(5_000);
    world.node('d').start();
    world.run(500);
    assert.equal(new Set(numbers(world)).size, 5);
  });

  test('with a malformed container record keeps it, and does not create the container again', () => {
    const world = settledWorld(2, { containers: 3, copies: 1 });
    const value = new TextEncoder().encode('?');
    world.write([{ kind: 'put', key: clusterKey({ kind: 'container', pool: 'p', container: '1' }), value }]);
    world.run(100);
    const { revision } = world.registry.keyspace;
    world.lead('b');
    world.run(3_000);
    assert.equal(world.registry.keyspace.revision, revision + 1, 'only the claim of the new leader');
    world.put('p', { ...world.pool('p'), state: 'deleting' });
    world.until(() => world.registry.keyspace.range(rangeOfPool(), 1).entries.length === 0, 3_000, 'deleted');
    assert.equal(world.registry.keyspace.range(keyRanges.containersOf('p'), 1).entries.length, 0);
  });
});

function rangeOfPool(): { readonly from: string; readonly to: string } {
  const key = clusterKey({ kind: 'pool', pool: 'p' });
  return { from: key, to: `${key}\0` };
}

function numbers(world: PlacementTestCluster): readonly number[] {
  const { entries } = world.registry.keyspace.range(
    { from: '/cluster/container-nodes/', to: '/cluster/container-nodes0' },
    100,
  );
  return entries.map(({ value }) => readNodeNumber(value) ?? -1);
}

describe('a roll of the module version', () => {
  test('reopens one container after the other, each served again before the next', () => {
    const world = settledWorld(3, { containers: 6, copies: 2 });
    const opening = new Set<string>();
    let most = 0;
    world.onRecord = (text, { phase }) => {
      if (phase === 'opening') opening.add(text);
      else opening.delete(text);
      most = Math.max(most, opening.size);
    };
    world.put('p', { ...world.pool('p'), moduleVersion: 1 });
    world.until(
      () => [...world.records.values()].every(({ moduleVersion }) => moduleVersion === 1),
      5_000,
      'all rolled',
    );
    assert.equal(most, 1);
    world.settle(2);
    assert.equal(world.eventsOf('container.recovered').length, 0);
    assert.ok(world.nodes.every((node) => node.opened.some((line) => line.endsWith('restart'))));
  });

  test('stops at the first container that fails to open, and continues with a repaired version', () => {
    const world = settledWorld(3, { containers: 6, copies: 2 }, { openRetryMsMin: 100, openRetryMsMax: 200 });
    const pool = world.pool('p');
    for (const node of world.nodes) node.opens = 'fails';
    world.put('p', { ...pool, moduleVersion: 1 });
    world.run(5_000);
    const touched = [...world.records.values()].filter(({ moduleVersion }) => moduleVersion === 1);
    assert.equal(touched.length, 1);
    assert.ok((touched[0]?.failures ?? 0) >= 3);
    for (const node of world.nodes) node.opens = 'well';
    world.put('p', { ...pool, moduleVersion: 2 });
    world.until(
      () => [...world.records.values()].every(({ moduleVersion }) => moduleVersion === 2),
      5_000,
      'all rolled',
    );
    world.settle(2);
  });
});

test('a settled cluster writes nothing', () => {
  const world = settledWorld(3, { containers: 12 });
  const before = world.registry.keyspace.revision;
  world.run(200_000);
  assert.equal(world.registry.keyspace.revision, before);
  assert.equal(world.leader?.placer?.view?.containers.size, 12);
});

test('a change reconciles only the containers that it concerns', () => {
  const world = settledWorld(3, { containers: 600, copies: 2 });
  const view = world.leader?.placer?.view ?? assert.fail('no leader');
  const get = view.containers.get.bind(view.containers);
  let lookups = 0;
  view.containers.get = (text) => {
    lookups += 1;
    return get(text);
  };
  world.run(20_000);
  assert.equal(lookups, 0, 'lease renewals alone cost nothing');
  assert.ok(world.move('p/5', world.ownerOf('p/5') === 'a' ? 'b' : 'a').ok);
  world.until(() => world.record('p/5').opening === 'migrate' && world.isSettled(2), 3_000, 'moved');
  assert.ok(lookups > 0 && lookups < 100, `${lookups} lookups`);
});
