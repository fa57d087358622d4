import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { PlacementTestCluster, settledCluster } from '../../../test/support/placement/placement-cluster.ts';
import { clusterKey, keyRanges } from '../../registry/cluster-keys.ts';
import { type PoolRecord, readNodeNumber } from '../state/container-records.ts';

describe('a pool', () => {
  test('has its containers and replicas spread evenly', () => {
    const cluster = settledCluster(3, { containers: 12, copies: 2 });
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => cluster.countOn(name)),
      [4, 4, 4],
    );
    const copies = [...cluster.records.keys()].map((fullName) => cluster.copies(fullName).split(' ')[1]);
    for (const name of ['a', 'b', 'c']) assert.equal(copies.filter((copy) => copy === name).length, 4);
    assert.equal(cluster.eventsOf('container.assigned').length, 12);
    assert.deepEqual(cluster.eventsOf('pool.created'), ['pool.created p']);
  });

  test('with many containers is created in batches, each container once', () => {
    const cluster = settledCluster(3, { containers: 350, copies: 1 });
    assert.equal(cluster.records.size, 350);
    assert.equal(cluster.eventsOf('container.assigned').length, 350);
    assert.deepEqual(cluster.eventsOf('pool.created'), ['pool.created p']);
  });

  test('waits for nodes, and has fewer replicas until there are enough nodes', () => {
    const cluster = new PlacementTestCluster();
    cluster.add(1);
    cluster.node('a').setMode('drained');
    cluster.lead('a');
    cluster.create('p', { copies: 3 });
    cluster.run(3_000);
    assert.equal(cluster.records.size, 0);
    cluster.node('a').setMode('active');
    cluster.settle(1);
    cluster.add(1);
    cluster.settle(2);
    cluster.add(1);
    cluster.settle(3);
    assert.equal(cluster.countOn('a'), cluster.records.size, 'a node that joins gets replicas, no containers');
  });

  test('that is deleted while its containers are being created disappears at any timing', () => {
    const facts = { major: 1, minor: 0, module: 'm', moduleVersion: 0, containers: 3, copies: 1 };
    const pool: PoolRecord = { ...facts, durability: 'copies', restart: false, params: null, state: 'active' };
    for (let afterMs = 0; afterMs < 10; afterMs += 0.5) {
      const cluster = new PlacementTestCluster();
      cluster.add(2);
      cluster.lead('a');
      cluster.run(3_000);
      // Transactions of the leader are delayed: it learns of the deletion before they are refused.
      const { registry } = cluster.node('a');
      const transact = registry.transact.bind(registry);
      const delayed: typeof transact = (...args) => void cluster.timeline.after(5, () => transact(...args));
      cluster.put('p', pool);
      Object.assign(registry, { transact: delayed });
      cluster.run(afterMs);
      Object.assign(registry, { transact });
      cluster.put('p', { ...pool, state: 'deleting' });
      Object.assign(registry, { transact: delayed });
      cluster.run(10);
      const isGone = (): boolean => cluster.node('a').placer?.view?.pools.get('p')?.record === undefined;
      cluster.until(() => cluster.records.size === 0 && isGone(), 10_000, `deleted after ${afterMs} ms`);
    }
  });

  test('is not placed by a new leader on the first node that requests a lease alone', () => {
    const cluster = new PlacementTestCluster();
    cluster.add(3);
    cluster.create('p', { containers: 9, copies: 1 });
    cluster.node('c').pause();
    cluster.lead('a');
    cluster.run(300);
    assert.equal(cluster.records.size, 0, 'it is unknown whether c is available');
    cluster.node('c').resume();
    cluster.settle(1);
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => cluster.countOn(name)),
      [3, 3, 3],
    );
  });

  test('is deleted completely, and can be created again with higher fences', () => {
    const cluster = settledCluster(2, { containers: 130, copies: 1 });
    const { fence } = cluster.record('p/7');
    const pool: PoolRecord = { ...cluster.pool('p'), state: 'deleting' };
    cluster.put('p', pool);
    cluster.until(() => cluster.records.size === 0, 5_000, 'no containers');
    cluster.run(100);
    const left = cluster.registry.keyspace.range(keyRanges.containersOf('p'), 10);
    assert.equal(left.entries.length, 0);
    assert.equal(cluster.registry.keyspace.range(rangeOfPool(), 1).entries.length, 0, 'its record is gone');
    assert.deepEqual(cluster.eventsOf('pool.deleted'), ['pool.deleted p']);
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const { revision } = cluster.registry.keyspace;
    const isGranted = [revision - 1, revision].map(
      (seen) => a.placer?.grantServingLease(b.id, b.generation, { revision: seen, epoch: undefined }).ok,
    );
    assert.deepEqual(isGranted, [false, true], 'no node keeps serving before it has seen the deletion');
    cluster.create('p', { containers: 8, copies: 1 });
    cluster.settle(1);
    assert.ok(cluster.record('p/7').fence > fence);
  });

  test('finds every worker numbered once, also by the next leader', () => {
    const cluster = settledCluster(3, { containers: 1, copies: 1 });
    cluster.lead('b');
    cluster.add(2);
    cluster.until(() => numbers(cluster).length === 5, 3_000, 'five numbers');
    assert.deepEqual(
      numbers(cluster).toSorted((x, y) => x - y),
      [1, 2, 3, 4, 5],
    );
    cluster.node('d').kill();
    cluster.run(5_000);
    cluster.node('d').start();
    cluster.run(500);
    assert.equal(new Set(numbers(cluster)).size, 5);
  });

  test('with a malformed container record keeps it, and does not create the container again', () => {
    const cluster = settledCluster(2, { containers: 3, copies: 1 });
    const value = new TextEncoder().encode('?');
    cluster.write([{ kind: 'put', key: clusterKey({ kind: 'container', pool: 'p', container: '1' }), value }]);
    cluster.run(100);
    const { revision } = cluster.registry.keyspace;
    cluster.lead('b');
    cluster.run(3_000);
    assert.equal(cluster.registry.keyspace.revision, revision + 1, 'only the claim of the new leader');
    cluster.put('p', { ...cluster.pool('p'), state: 'deleting' });
    cluster.until(() => cluster.registry.keyspace.range(rangeOfPool(), 1).entries.length === 0, 3_000, 'deleted');
    assert.equal(cluster.registry.keyspace.range(keyRanges.containersOf('p'), 1).entries.length, 0);
  });
});

function rangeOfPool(): { readonly from: string; readonly to: string } {
  const key = clusterKey({ kind: 'pool', pool: 'p' });
  return { from: key, to: `${key}\0` };
}

function numbers(cluster: PlacementTestCluster): readonly number[] {
  const { entries } = cluster.registry.keyspace.range(
    { from: '/cluster/container-nodes/', to: '/cluster/container-nodes0' },
    100,
  );
  return entries.map(({ value }) => readNodeNumber(value) ?? -1);
}

describe('a roll of the module version', () => {
  test('reopens one container after the other, each served again before the next', () => {
    const cluster = settledCluster(3, { containers: 6, copies: 2 });
    const opening = new Set<string>();
    let most = 0;
    cluster.onRecord = (fullName, { phase }) => {
      if (phase === 'opening') opening.add(fullName);
      else opening.delete(fullName);
      most = Math.max(most, opening.size);
    };
    cluster.put('p', { ...cluster.pool('p'), moduleVersion: 1 });
    cluster.until(
      () => [...cluster.records.values()].every(({ moduleVersion }) => moduleVersion === 1),
      5_000,
      'all rolled',
    );
    assert.equal(most, 1);
    cluster.settle(2);
    assert.equal(cluster.eventsOf('container.recovered').length, 0);
    assert.ok(cluster.nodes.every((node) => node.opened.some((line) => line.endsWith('restart'))));
  });

  test('stops at the first container that fails to open, and continues with a repaired version', () => {
    const cluster = settledCluster(3, { containers: 6, copies: 2 }, { openRetryMsMin: 100, openRetryMsMax: 200 });
    const pool = cluster.pool('p');
    for (const node of cluster.nodes) node.opens = 'fails';
    cluster.put('p', { ...pool, moduleVersion: 1 });
    cluster.run(5_000);
    const touched = [...cluster.records.values()].filter(({ moduleVersion }) => moduleVersion === 1);
    assert.equal(touched.length, 1);
    assert.ok((touched[0]?.failures ?? 0) >= 3);
    for (const node of cluster.nodes) node.opens = 'well';
    cluster.put('p', { ...pool, moduleVersion: 2 });
    cluster.until(
      () => [...cluster.records.values()].every(({ moduleVersion }) => moduleVersion === 2),
      5_000,
      'all rolled',
    );
    cluster.settle(2);
  });
});

test('a settled cluster writes nothing', () => {
  const cluster = settledCluster(3, { containers: 12 });
  const before = cluster.registry.keyspace.revision;
  cluster.run(200_000);
  assert.equal(cluster.registry.keyspace.revision, before);
  assert.equal(cluster.leader?.placer?.view?.containers.size, 12);
});

test('a change reconciles only the containers that it concerns', () => {
  const cluster = settledCluster(3, { containers: 600, copies: 2 });
  const view = cluster.leader?.placer?.view ?? assert.fail('no leader');
  const get = view.containers.get.bind(view.containers);
  let lookups = 0;
  view.containers.get = (fullName) => {
    lookups += 1;
    return get(fullName);
  };
  cluster.run(20_000);
  assert.equal(lookups, 0, 'lease renewals alone cost nothing');
  assert.ok(cluster.move('p/5', cluster.ownerOf('p/5') === 'a' ? 'b' : 'a').ok);
  cluster.until(() => cluster.record('p/5').opening === 'migrate' && cluster.isSettled(2), 3_000, 'moved');
  assert.ok(lookups > 0 && lookups < 100, `${lookups} lookups`);
});
