import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type PlacementTestCluster, settledCluster } from '../../../test/support/placement/placement-cluster.ts';

function holding(cluster: PlacementTestCluster, name: string): readonly string[] {
  return [...cluster.records.keys()].filter((fullName) => cluster.copies(fullName).split(' ').includes(name));
}

describe('replicas', () => {
  test('of a dead node are replaced after a delay', () => {
    const cluster = settledCluster(4, { containers: 12 });
    cluster.node('d').kill();
    cluster.run(3_000 + 1_500);
    assert.notEqual(holding(cluster, 'd').length, 0, 'the node may come back');
    cluster.until(() => holding(cluster, 'd').length === 0, 20_000, 'd holds nothing');
    cluster.settle(2);
  });

  test('stay on a node that returns in time', () => {
    const cluster = settledCluster(4, { containers: 12 });
    const before = holding(cluster, 'd').length;
    cluster.node('d').kill();
    cluster.run(4_000);
    cluster.node('d').start();
    cluster.settle(2);
    assert.equal(holding(cluster, 'd').length, before);
  });

  test('are repaired at most `copyRepairsMax` at a time', () => {
    const cluster = settledCluster(5, { containers: 40, copies: 2 }, { copyRepairsMax: 3 });
    for (const node of cluster.nodes) node.copyMs = 200;
    let most = 0;
    cluster.onRecord = () => {
      const lagging = [...cluster.records.values()].filter((record) =>
        record.copies.some((id) => cluster.node(id).isUp && record.inSync.every(({ node }) => node !== id)),
      );
      if (cluster.timeline.nowMs > 0) most = Math.max(most, lagging.length);
    };
    cluster.node('e').kill();
    cluster.until(() => holding(cluster, 'e').length === 0, 60_000, 'e holds nothing');
    cluster.settle(2);
    assert.equal(most, 3);
  });

  test('that never catch up do not block other repairs', () => {
    const cluster = settledCluster(5, { containers: 10, copies: 2 }, { copyRepairsMax: 1, copyRepairStaleMs: 5_000 });
    cluster.node('b').copies = 'never';
    cluster.node('e').kill();
    const isRepaired = (): boolean =>
      [...cluster.records.values()].every(({ copies, inSync }) => {
        return copies.includes(cluster.node('b').id) || inSync.length === 2;
      });
    cluster.until(isRepaired, 60_000, 'all but those of b');
  });

  test('in sync stay until their replacement is in sync', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 2 });
    const fullName = [...cluster.records.keys()].find((one) => cluster.copies(one).split(' ')[1] === 'c') ?? '';
    const free = cluster.nodes.find(({ name }) => !cluster.copies(fullName).split(' ').includes(name));
    assert.ok(free !== undefined);
    free.copies = 'never';
    cluster.node('c').setMode('draining');
    cluster.run(10_000);
    assert.ok(cluster.inSync(fullName).includes('c'), 'c is still needed');
    assert.ok(cluster.copies(fullName).includes(free.name), 'its replacement is chosen');
    free.copies = 'well';
    cluster.until(() => !cluster.copies(fullName).includes('c'), 3_000, 'c leaves');
    assert.ok(cluster.inSync(fullName).includes(free.name));
  });

  test('leave a draining node also if no other node can replace it', () => {
    const cluster = settledCluster(2, { containers: 4, copies: 2 });
    for (const fullName of cluster.records.keys())
      if (cluster.ownerOf(fullName) === 'b') assert.ok(cluster.move(fullName, 'a').ok);
    cluster.until(() => cluster.isSettled(2), 3_000, 'all on a');
    cluster.node('b').setMode('draining');
    cluster.until(() => holding(cluster, 'b').length === 0, 3_000, 'b is empty');
    assert.ok(cluster.isSettled(1));
    cluster.node('b').setMode('active');
    cluster.settle(2);
  });

  test('follow the number that the pool wants', () => {
    const cluster = settledCluster(4, { containers: 6, copies: 2 });
    const pool = cluster.leader?.placer?.view?.pools.get('p')?.record;
    assert.ok(pool !== undefined);
    cluster.put('p', { ...pool, copies: 3 });
    cluster.run(10);
    cluster.settle(3);
    cluster.put('p', { ...pool, copies: 1 });
    cluster.run(10);
    cluster.settle(1);
  });

  test('are all replaced without loss when two of three nodes die one after the other', () => {
    const cluster = settledCluster(5, { containers: 10, copies: 3 });
    cluster.node('e').kill();
    cluster.run(400);
    cluster.node('d').kill();
    cluster.run(10_000);
    cluster.settle(3, 40_000);
    assert.equal(holding(cluster, 'e').length + holding(cluster, 'd').length, 0);
  });

  test('that lag for too long are replaced', () => {
    const cluster = settledCluster(4, { containers: 1, copies: 2 }, { copyRepairStaleMs: 5_000 });
    const [, copy = ''] = cluster.copies('p/0').split(' ');
    const bad = cluster.node(copy);
    bad.copies = 'never';
    // Its disk is full: the owner removes it from the ISR, and the replica stays on its node.
    bad.pause();
    cluster.until(() => cluster.record('p/0').inSync.length === 1, 3_000, 'out of sync');
    bad.resume();
    cluster.until(() => cluster.record('p/0').inSync.length === 2, 20_000, 'copied elsewhere');
    cluster.settle(2);
    assert.ok(!cluster.copies('p/0').split(' ').includes(copy), cluster.print());
    cluster.run(20_000);
    assert.equal(cluster.copies('p/0').split(' ').length, 2);
  });

  test('do not spread over all nodes when none can catch up', () => {
    const cluster = settledCluster(5, { containers: 1, copies: 2 }, { copyRepairStaleMs: 2_000 });
    const [owner, copy = ''] = cluster.copies('p/0').split(' ');
    for (const node of cluster.nodes) if (node.name !== owner) node.copies = 'never';
    cluster.node(copy).pause();
    cluster.until(() => cluster.record('p/0').inSync.length === 1, 3_000, 'out of sync');
    cluster.node(copy).resume();
    cluster.run(30_000);
    assert.ok(cluster.copies('p/0').split(' ').length <= 3, cluster.print());
  });
});
