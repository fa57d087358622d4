import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type PlacementTestCluster, settledWorld } from '../../../test/support/placement/placement-cluster.ts';

function holding(world: PlacementTestCluster, name: string): readonly string[] {
  return [...world.records.keys()].filter((text) => world.copies(text).split(' ').includes(name));
}

describe('replicas', () => {
  test('of a dead node are replaced after a delay', () => {
    const world = settledWorld(4, { containers: 12 });
    world.node('d').kill();
    world.run(3_000 + 1_500);
    assert.notEqual(holding(world, 'd').length, 0, 'the node may come back');
    world.until(() => holding(world, 'd').length === 0, 20_000, 'd holds nothing');
    world.settle(2);
  });

  test('stay on a node that returns in time', () => {
    const world = settledWorld(4, { containers: 12 });
    const before = holding(world, 'd').length;
    world.node('d').kill();
    world.run(4_000);
    world.node('d').start();
    world.settle(2);
    assert.equal(holding(world, 'd').length, before);
  });

  test('are repaired at most `copyRepairsMax` at a time', () => {
    const world = settledWorld(5, { containers: 40, copies: 2 }, { copyRepairsMax: 3 });
    for (const node of world.nodes) node.copyMs = 200;
    let most = 0;
    world.onRecord = () => {
      const lagging = [...world.records.values()].filter((record) =>
        record.copies.some((id) => world.node(id).isUp && record.inSync.every(({ node }) => node !== id)),
      );
      if (world.timeline.nowMs > 0) most = Math.max(most, lagging.length);
    };
    world.node('e').kill();
    world.until(() => holding(world, 'e').length === 0, 60_000, 'e holds nothing');
    world.settle(2);
    assert.equal(most, 3);
  });

  test('that never catch up do not block other repairs', () => {
    const world = settledWorld(5, { containers: 10, copies: 2 }, { copyRepairsMax: 1, copyRepairStaleMs: 5_000 });
    world.node('b').copies = 'never';
    world.node('e').kill();
    const isRepaired = (): boolean =>
      [...world.records.values()].every(({ copies, inSync }) => {
        return copies.includes(world.node('b').id) || inSync.length === 2;
      });
    world.until(isRepaired, 60_000, 'all but those of b');
  });

  test('in sync stay until their replacement is in sync', () => {
    const world = settledWorld(3, { containers: 3, copies: 2 });
    const text = [...world.records.keys()].find((one) => world.copies(one).split(' ')[1] === 'c') ?? '';
    const free = world.nodes.find(({ name }) => !world.copies(text).split(' ').includes(name));
    assert.ok(free !== undefined);
    free.copies = 'never';
    world.node('c').setMode('draining');
    world.run(10_000);
    assert.ok(world.inSync(text).includes('c'), 'c is still needed');
    assert.ok(world.copies(text).includes(free.name), 'its replacement is chosen');
    free.copies = 'well';
    world.until(() => !world.copies(text).includes('c'), 3_000, 'c leaves');
    assert.ok(world.inSync(text).includes(free.name));
  });

  test('leave a draining node also if no other node can replace it', () => {
    const world = settledWorld(2, { containers: 4, copies: 2 });
    for (const text of world.records.keys()) if (world.ownerOf(text) === 'b') assert.ok(world.move(text, 'a').ok);
    world.until(() => world.isSettled(2), 3_000, 'all on a');
    world.node('b').setMode('draining');
    world.until(() => holding(world, 'b').length === 0, 3_000, 'b is empty');
    assert.ok(world.isSettled(1));
    world.node('b').setMode('active');
    world.settle(2);
  });

  test('follow the number that the pool wants', () => {
    const world = settledWorld(4, { containers: 6, copies: 2 });
    const pool = world.leader?.placer?.view?.pools.get('p')?.record;
    assert.ok(pool !== undefined);
    world.put('p', { ...pool, copies: 3 });
    world.run(10);
    world.settle(3);
    world.put('p', { ...pool, copies: 1 });
    world.run(10);
    world.settle(1);
  });

  test('are all replaced without loss when two of three nodes die one after the other', () => {
    const world = settledWorld(5, { containers: 10, copies: 3 });
    world.node('e').kill();
    world.run(400);
    world.node('d').kill();
    world.run(10_000);
    world.settle(3, 40_000);
    assert.equal(holding(world, 'e').length + holding(world, 'd').length, 0);
  });

  test('that lag for too long are replaced', () => {
    const world = settledWorld(4, { containers: 1, copies: 2 }, { copyRepairStaleMs: 5_000 });
    const [, copy = ''] = world.copies('p/0').split(' ');
    const bad = world.node(copy);
    bad.copies = 'never';
    // Its disk is full: the owner removes it from the ISR, and the replica stays on its node.
    bad.pause();
    world.until(() => world.record('p/0').inSync.length === 1, 3_000, 'out of sync');
    bad.resume();
    world.until(() => world.record('p/0').inSync.length === 2, 20_000, 'copied elsewhere');
    world.settle(2);
    assert.ok(!world.copies('p/0').split(' ').includes(copy), world.print());
    world.run(20_000);
    assert.equal(world.copies('p/0').split(' ').length, 2);
  });

  test('do not spread over all nodes when none can catch up', () => {
    const world = settledWorld(5, { containers: 1, copies: 2 }, { copyRepairStaleMs: 2_000 });
    const [owner, copy = ''] = world.copies('p/0').split(' ');
    for (const node of world.nodes) if (node.name !== owner) node.copies = 'never';
    world.node(copy).pause();
    world.until(() => world.record('p/0').inSync.length === 1, 3_000, 'out of sync');
    world.node(copy).resume();
    world.run(30_000);
    assert.ok(world.copies('p/0').split(' ').length <= 3, world.print());
  });
});
