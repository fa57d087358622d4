import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  PlacementTestCluster,
  placementLeaseMs,
  settledWorld,
} from '../../../test/support/placement/placement-cluster.ts';

describe('recovery of a container', () => {
  test('happens at once on proof that the owner has ended', () => {
    const world = settledWorld(3, { containers: 6 });
    const lost = [...world.records.keys()].filter((text) => world.ownerOf(text) === 'b');
    const b = world.node('b');
    b.kill();
    world.node('a').placer?.nodeGone(b.id, b.generation);
    const tookMs = world.until(() => world.countOn('b') === 0, 500, 'all taken over');
    assert.ok(tookMs < 100);
    assert.equal(world.eventsOf('container.recovered').length, lost.length);
    world.settle(2);
  });

  test('from a silent owner happens after 1.1 of the lease', () => {
    const world = settledWorld(3, { containers: 6 });
    world.node('b').kill();
    world.run(900);
    assert.equal(world.countOn('b'), 2);
    world.until(() => world.countOn('b') === 0, 600, 'all taken over');
  });

  test('does not happen in a pause shorter than the lease', () => {
    const world = settledWorld(3, { containers: 6 });
    const before = world.changes;
    world.node('b').pause();
    world.run(300);
    world.node('b').resume();
    world.run(3_000);
    assert.equal(world.countOn('b'), 2);
    assert.equal(world.eventsOf('container.recovered').length, 0);
    assert.ok(world.changes >= before);
  });

  test('takes containers from a paused node for good, and leaves it those that no other node could take', () => {
    const world = settledWorld(3, { containers: 6, copies: 2 });
    world.create('single', { containers: 3, copies: 1 });
    world.until(() => world.records.size === 9, 5_000, 'created');
    world.run(200);
    const b = world.node('b');
    b.pause();
    world.run(3_000);
    assert.equal(
      world.eventsOf('container.waiting').length,
      1,
      'no other node has the state of the unreplicated container',
    );
    const single = world.eventsOf('container.waiting')[0]?.split(' ')[1] ?? '';
    const { fence } = world.record(single);
    b.resume();
    world.until(
      () => world.record(single).note === '' && b.serves(single),
      1_000,
      'b serves the unreplicated container',
    );
    assert.equal(world.record(single).fence, fence, 'without another activation');
    world.run(5_000);
  });

  test('restarts in place on an owner that returns before another node could take over', () => {
    const world = settledWorld(2, { containers: 2, copies: 1, restart: true });
    const text = world.ownedBy('b');
    const b = world.node('b');
    b.kill();
    world.run(1_500);
    b.start();
    world.until(() => world.record(text).owner?.generation === 2 && b.serves(text), 2_000, 'b serves it again');
    assert.equal(world.record(text).opening, 'restart');
    assert.deepEqual(b.opened.at(-1), `${text} restart`);
  });

  test('in place calls `recover` for a pool without `restart`', () => {
    const world = settledWorld(2, { containers: 2, copies: 1, restart: false });
    const text = world.ownedBy('b');
    const b = world.node('b');
    b.kill();
    b.start();
    world.until(() => b.serves(text), 2_000, 'b serves it again');
    assert.equal(world.record(text).opening, 'recover');
  });

  test('waits when all replicas are lost, reports it once, and continues with the first that returns', () => {
    const world = settledWorld(4, { containers: 4, copies: 2 });
    const text = [...world.records.keys()].find((one) => world.copies(one) === 'c d') ?? world.ownedBy('c');
    const holders = world.copies(text).split(' ');
    assert.ok(!holders.includes('a'));
    for (const name of holders) world.node(name).kill();
    world.run(6_000);
    assert.equal(world.eventsOf(`container.waiting ${text}`).length, 1);
    assert.match(world.record(text).note, /^no replica with its state is available/);
    world.lead('b');
    world.run(2_000);
    assert.equal(world.eventsOf(`container.waiting ${text}`).length, 1, 'the next leader does not repeat the event');
    world.node(holders[1] as string).start();
    world.until(() => world.node(holders[1] as string).serves(text), 3_000, 'served by the node that returned');
    world.settle(2, 20_000);
  });

  test('of state in memory starts empty only when all generations that had the state have ended', () => {
    const world = settledWorld(3, { containers: 3, copies: 2, durability: 'memory' });
    const text = world.records
      .keys()
      .toArray()
      .find((one) => !world.copies(one).includes('a'));
    assert.ok(text !== undefined, world.print());
    const [owner = '', copy = ''] = world.copies(text).split(' ');
    world.node(copy).kill();
    world.node(copy).clearState();
    world.node(copy).start();
    const isReplicatedAgain = (): boolean =>
      world.record(text).inSync.some(({ node, generation }) => world.nameOf(node) === copy && generation === 2);
    world.until(isReplicatedAgain, 3_000, 'replicated to the new generation');
    world.node(owner).kill();
    world.node(owner).clearState();
    world.until(() => world.node(copy).serves(text), 3_000, 'the new generation of the replica serves it');
    assert.equal(world.record(text).opening, 'recover');
    world.node(copy).kill();
    world.node(copy).clearState();
    world.node(copy).start();
    world.until(
      () => world.record(text).opening === 'init' && world.record(text).phase === 'serving',
      4_000,
      'empty again',
    );
    assert.match(world.eventsOf(`container.assigned ${text}`).at(-1) ?? '', /in memory/);
  });

  test('of state in memory does not start empty while registered nodes are silent', () => {
    const world = settledWorld(3, { containers: 3, copies: 2, durability: 'memory' });
    const text = [...world.records.keys()].find((one) => !world.copies(one).includes('a')) ?? assert.fail();
    const holders = world.copies(text).split(' ');
    for (const name of holders) world.node(name).pause();
    world.run(3 * placementLeaseMs);
    assert.match(world.record(text).note, /^no replica with its state is available/);
    for (const name of holders) world.node(name).resume();
    world.until(() => holders.some((name) => world.node(name).serves(text)), 3_000, 'served again');
    assert.deepEqual(
      world.eventsOf(`container.assigned ${text}`).filter((event) => event.includes('in memory')),
      [],
    );
    for (const name of holders) world.node(name).pause();
    world.run(2 * placementLeaseMs);
    for (const name of holders) world.node(name).unregister();
    world.until(() => world.record(text).opening === 'init' && world.node('a').serves(text), 3_000, 'empty again');
  });

  test('restarts an unfinished init on another node', () => {
    const world = new PlacementTestCluster();
    world.add(3);
    world.node('b').opens = 'never';
    world.lead('a');
    world.create('p', { containers: 3, copies: 2 });
    world.until(() => world.records.size === 3, 3_000, 'created');
    const text = world.ownedBy('b');
    world.node('b').kill();
    world.until(() => world.record(text).phase === 'serving', 4_000, 'served elsewhere');
    assert.equal(world.record(text).opening, 'init');
    assert.notEqual(world.ownerOf(text), 'b');
  });

  test('works again when the same node dies twice', () => {
    const world = settledWorld(3, { containers: 6, copies: 3 });
    for (let time = 0; time < 2; time++) {
      const b = world.node('b');
      for (const text of world.records.keys())
        if (world.ownerOf(text) !== 'b' && world.countOn('b') < 2) world.move(text, 'b');
      world.until(() => world.countOn('b') >= 2 && world.isSettled(3), 5_000, 'b owns something');
      b.kill();
      world.until(() => world.countOn('b') === 0, 3_000, 'recovered');
      b.start();
      world.settle(3);
    }
  });

  test('follows the ranking of the module among the candidates, and survives its exceptions', () => {
    const rankings: string[] = [];
    const world = settledWorld(4, { containers: 4, copies: 4 }, {}, (pool, container, candidates) => {
      rankings.push(`${pool}/${container} ${candidates.map(({ name }) => name).join('')}`);
      if (container === 0) throw new Error('a bug of the module');
      return ['unknown', 'd', 'a'];
    });
    const b = world.node('b');
    const text = world.ownedBy('b');
    b.kill();
    world.until(() => world.countOn('b') === 0, 3_000, 'recovered');
    assert.equal(world.ownerOf(text), 'd');
    assert.ok(rankings[0]?.endsWith('acd'), String(rankings[0]));
    const c = world.node('c');
    c.kill();
    world.until(() => world.countOn('c') === 0, 3_000, 'recovered');
  });

  test('uses a drained node as a last resort, and moves the container away as soon as possible', () => {
    const world = settledWorld(3, { containers: 3, copies: 1 });
    const text = world.ownedBy('b');
    const b = world.node('b');
    b.kill();
    world.run(5_000);
    b.start('drained');
    world.until(() => world.ownerOf(text) !== 'b' && world.record(text).phase === 'serving', 5_000, 'moved away');
    assert.ok(b.opened.includes(`${text} recover`), 'b served it in between');
    world.settle(1);
    assert.equal(world.copies(text).includes('b'), false);
  });
});

describe('a failed activation', () => {
  test('is retried on the next candidate, never on the same twice in a row; the third needs attention', () => {
    const world = settledWorld(4, { containers: 4, copies: 3 }, { openRetryMsMin: 50 });
    const text = world.ownedBy('b');
    const holders = world.copies(text).split(' ');
    for (const node of world.nodes) node.opens = 'fails';
    const tried = new Map<bigint, string>();
    world.onRecord = (one, { fence, owner }) => {
      if (one === text && owner !== undefined) tried.set(fence, world.nameOf(owner.node));
    };
    world.node('b').kill();
    world.until(() => world.eventsOf(`container.recoveryFailed ${text}`).length >= 4, 10_000, 'four failures');
    const names = [...tried.values()].filter((name, index) => index > 0 || name !== 'b');
    assert.ok(names.length >= 4);
    for (const [index, name] of names.entries()) {
      if (index > 0) assert.notEqual(name, names[index - 1]);
      assert.ok(holders.includes(name) && name !== 'b');
    }
    const failures = world.eventsOf(`container.recoveryFailed ${text}`);
    assert.ok(!failures[0]?.endsWith('(alarm)') && failures[3]?.endsWith('(alarm)'), failures.join('\n'));
    for (const node of world.nodes) node.opens = 'well';
    world.settle(3, 30_000);
    assert.equal(world.record(text).failures, 0);
  });

  test('is assumed after the deadline if another node could open the container', () => {
    const world = settledWorld(3, { containers: 3, copies: 3 }, { openDeadlineMs: 2_000 });
    const text = world.ownedBy('b');
    world.node('b').kill();
    for (const node of world.nodes) node.opens = 'never';
    world.until(() => world.ownerOf(text) !== 'b', 3_000, 'taken over');
    const first = world.ownerOf(text);
    for (const node of world.nodes) if (node.name !== first) node.opens = 'well';
    world.run(1_500);
    assert.equal(world.ownerOf(text), first);
    world.until(() => world.record(text).phase === 'serving', 2_000, 'opened by another node');
    assert.notEqual(world.ownerOf(text), first);
    assert.match(world.eventsOf('container.recoveryFailed')[0] ?? '', /not opened within 2000 ms/);
  });

  test('is not assumed after the deadline if no other node could open the container', () => {
    const world = settledWorld(2, { containers: 2, copies: 1 }, { openDeadlineMs: 1_000 });
    const text = world.ownedBy('b');
    const b = world.node('b');
    b.kill();
    b.openMs = 4_000;
    b.start();
    world.until(() => b.serves(text), 6_000, 'opened in the end');
    assert.equal(world.eventsOf('container.recoveryFailed').length, 0);
  });

  test('is counted when the owner dies while it opens, so that a container cannot kill all nodes in turn', () => {
    const world = settledWorld(3, { containers: 3, copies: 3 });
    const text = world.ownedBy('b');
    for (const node of world.nodes) node.opens = 'never';
    world.node('b').kill();
    world.until(() => world.ownerOf(text) === 'c' || world.ownerOf(text) === 'a', 3_000, 'taken over');
    const second = world.ownerOf(text);
    world.lead(second === 'a' ? 'c' : 'a');
    world.node(second).kill();
    world.until(() => world.record(text).failures === 1, 4_000, 'counted');
  });

  test('of a served container moves it to the next node, also after earlier failures', () => {
    const world = settledWorld(3, { containers: 3, copies: 3 });
    const text = world.ownedBy('b');
    const seen = (): number => world.eventsOf(`container.recoveryFailed ${text}`).length;
    const serves = (): boolean => world.node(world.ownerOf(text)).serves(text);
    for (const node of world.nodes) node.opens = 'fails';
    world.node('b').failServing(text);
    world.until(() => seen() >= 2, 3_000, 'two failures');
    for (const node of world.nodes) node.opens = 'well';
    world.until(serves, 3_000, 'served');
    const [owner, count] = [world.ownerOf(text), seen()];
    world.node(owner).failServing(text);
    world.until(() => seen() > count && serves(), 1_000, 'served by another node');
    assert.notEqual(world.ownerOf(text), owner);
  });

  test('is seen by the next leader, too', () => {
    const world = settledWorld(3, { containers: 3, copies: 3 });
    const text = world.ownedBy('b');
    for (const node of world.nodes) node.opens = 'fails';
    world.node('b').kill();
    let leads = 'a';
    world.onRecord = (one, { failures }) => {
      if (one !== text || failures === 0) return;
      const next = leads === 'a' ? 'c' : 'a';
      leads = next;
      world.clock.schedule(0, () => world.lead(next));
    };
    world.until(() => world.record(text).failures >= 2, 20_000, 'two failures');
    world.onRecord = () => {};
    for (const node of world.nodes) node.opens = 'well';
    world.until(() => world.record(text).phase === 'serving', 20_000, 'served');
  });
});
