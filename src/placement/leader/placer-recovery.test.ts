import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  PlacementTestCluster,
  placementLeaseMs,
  settledCluster,
} from '../../../test/support/placement/placement-cluster.ts';

describe('recovery of a container', () => {
  test('happens at once on proof that the owner has ended', () => {
    const cluster = settledCluster(3, { containers: 6 });
    const lost = [...cluster.records.keys()].filter((fullName) => cluster.ownerOf(fullName) === 'b');
    const b = cluster.node('b');
    b.kill();
    cluster.node('a').placer?.nodeGone(b.id, b.generation);
    const tookMs = cluster.until(() => cluster.countOn('b') === 0, 500, 'all taken over');
    assert.ok(tookMs < 100);
    assert.equal(cluster.eventsOf('container.recovered').length, lost.length);
    cluster.settle(2);
  });

  test('from a silent owner happens after 1.1 of the lease', () => {
    const cluster = settledCluster(3, { containers: 6 });
    cluster.node('b').kill();
    cluster.run(900);
    assert.equal(cluster.countOn('b'), 2);
    cluster.until(() => cluster.countOn('b') === 0, 600, 'all taken over');
  });

  test('does not happen in a pause shorter than the lease', () => {
    const cluster = settledCluster(3, { containers: 6 });
    const before = cluster.changes;
    cluster.node('b').pause();
    cluster.run(300);
    cluster.node('b').resume();
    cluster.run(3_000);
    assert.equal(cluster.countOn('b'), 2);
    assert.equal(cluster.eventsOf('container.recovered').length, 0);
    assert.ok(cluster.changes >= before);
  });

  test('takes containers from a paused node for good, and leaves it those that no other node could take', () => {
    const cluster = settledCluster(3, { containers: 6, copies: 2 });
    cluster.create('single', { containers: 3, copies: 1 });
    cluster.until(() => cluster.records.size === 9, 5_000, 'created');
    cluster.run(200);
    const b = cluster.node('b');
    b.pause();
    cluster.run(3_000);
    assert.equal(
      cluster.eventsOf('container.waiting').length,
      1,
      'no other node has the state of the unreplicated container',
    );
    const single = cluster.eventsOf('container.waiting')[0]?.split(' ')[1] ?? '';
    const { fence } = cluster.record(single);
    b.resume();
    cluster.until(
      () => cluster.record(single).note === '' && b.serves(single),
      1_000,
      'b serves the unreplicated container',
    );
    assert.equal(cluster.record(single).fence, fence, 'without another activation');
    cluster.run(5_000);
  });

  test('restarts in place on an owner that returns before another node could take over', () => {
    const cluster = settledCluster(2, { containers: 2, copies: 1, restart: true });
    const fullName = cluster.ownedBy('b');
    const b = cluster.node('b');
    b.kill();
    cluster.run(1_500);
    b.start();
    cluster.until(
      () => cluster.record(fullName).owner?.generation === 2 && b.serves(fullName),
      2_000,
      'b serves it again',
    );
    assert.equal(cluster.record(fullName).opening, 'restart');
    assert.deepEqual(b.opened.at(-1), `${fullName} restart`);
  });

  test('in place calls `recover` for a pool without `restart`', () => {
    const cluster = settledCluster(2, { containers: 2, copies: 1, restart: false });
    const fullName = cluster.ownedBy('b');
    const b = cluster.node('b');
    b.kill();
    b.start();
    cluster.until(() => b.serves(fullName), 2_000, 'b serves it again');
    assert.equal(cluster.record(fullName).opening, 'recover');
  });

  test('waits when all replicas are lost, reports it once, and continues with the first that returns', () => {
    const cluster = settledCluster(4, { containers: 4, copies: 2 });
    const fullName = [...cluster.records.keys()].find((one) => cluster.copies(one) === 'c d') ?? cluster.ownedBy('c');
    const holders = cluster.copies(fullName).split(' ');
    assert.ok(!holders.includes('a'));
    for (const name of holders) cluster.node(name).kill();
    cluster.run(6_000);
    assert.equal(cluster.eventsOf(`container.waiting ${fullName}`).length, 1);
    assert.match(cluster.record(fullName).note, /^no replica with its state is available/);
    cluster.lead('b');
    cluster.run(2_000);
    assert.equal(
      cluster.eventsOf(`container.waiting ${fullName}`).length,
      1,
      'the next leader does not repeat the event',
    );
    cluster.node(holders[1] as string).start();
    cluster.until(() => cluster.node(holders[1] as string).serves(fullName), 3_000, 'served by the node that returned');
    cluster.settle(2, 20_000);
  });

  test('of state in memory starts empty only when all generations that had the state have ended', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 2, durability: 'memory' });
    const fullName = cluster.records
      .keys()
      .toArray()
      .find((one) => !cluster.copies(one).includes('a'));
    assert.ok(fullName !== undefined, cluster.print());
    const [owner = '', copy = ''] = cluster.copies(fullName).split(' ');
    cluster.node(copy).kill();
    cluster.node(copy).clearState();
    cluster.node(copy).start();
    const isReplicatedAgain = (): boolean =>
      cluster.record(fullName).inSync.some(({ node, generation }) => cluster.nameOf(node) === copy && generation === 2);
    cluster.until(isReplicatedAgain, 3_000, 'replicated to the new generation');
    cluster.node(owner).kill();
    cluster.node(owner).clearState();
    cluster.until(() => cluster.node(copy).serves(fullName), 3_000, 'the new generation of the replica serves it');
    assert.equal(cluster.record(fullName).opening, 'recover');
    cluster.node(copy).kill();
    cluster.node(copy).clearState();
    cluster.node(copy).start();
    cluster.until(
      () => cluster.record(fullName).opening === 'init' && cluster.record(fullName).phase === 'serving',
      4_000,
      'empty again',
    );
    assert.match(cluster.eventsOf(`container.assigned ${fullName}`).at(-1) ?? '', /in memory/);
  });

  test('of state in memory does not start empty while registered nodes are silent', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 2, durability: 'memory' });
    const fullName = [...cluster.records.keys()].find((one) => !cluster.copies(one).includes('a')) ?? assert.fail();
    const holders = cluster.copies(fullName).split(' ');
    for (const name of holders) cluster.node(name).pause();
    cluster.run(3 * placementLeaseMs);
    assert.match(cluster.record(fullName).note, /^no replica with its state is available/);
    for (const name of holders) cluster.node(name).resume();
    cluster.until(() => holders.some((name) => cluster.node(name).serves(fullName)), 3_000, 'served again');
    assert.deepEqual(
      cluster.eventsOf(`container.assigned ${fullName}`).filter((event) => event.includes('in memory')),
      [],
    );
    for (const name of holders) cluster.node(name).pause();
    cluster.run(2 * placementLeaseMs);
    for (const name of holders) cluster.node(name).unregister();
    cluster.until(
      () => cluster.record(fullName).opening === 'init' && cluster.node('a').serves(fullName),
      3_000,
      'empty again',
    );
  });

  test('restarts an unfinished init on another node', () => {
    const cluster = new PlacementTestCluster();
    cluster.add(3);
    cluster.node('b').opens = 'never';
    cluster.lead('a');
    cluster.create('p', { containers: 3, copies: 2 });
    cluster.until(() => cluster.records.size === 3, 3_000, 'created');
    const fullName = cluster.ownedBy('b');
    cluster.node('b').kill();
    cluster.until(() => cluster.record(fullName).phase === 'serving', 4_000, 'served elsewhere');
    assert.equal(cluster.record(fullName).opening, 'init');
    assert.notEqual(cluster.ownerOf(fullName), 'b');
  });

  test('works again when the same node dies twice', () => {
    const cluster = settledCluster(3, { containers: 6, copies: 3 });
    for (let time = 0; time < 2; time++) {
      const b = cluster.node('b');
      for (const fullName of cluster.records.keys())
        if (cluster.ownerOf(fullName) !== 'b' && cluster.countOn('b') < 2) cluster.move(fullName, 'b');
      cluster.until(() => cluster.countOn('b') >= 2 && cluster.isSettled(3), 5_000, 'b owns something');
      b.kill();
      cluster.until(() => cluster.countOn('b') === 0, 3_000, 'recovered');
      b.start();
      cluster.settle(3);
    }
  });

  test('follows the ranking of the module among the candidates, and survives its exceptions', () => {
    const rankings: string[] = [];
    const cluster = settledCluster(4, { containers: 4, copies: 4 }, {}, (pool, container, candidates) => {
      rankings.push(`${pool}/${container} ${candidates.map(({ name }) => name).join('')}`);
      if (container === 0) throw new Error('a bug of the module');
      return ['unknown', 'd', 'a'];
    });
    const b = cluster.node('b');
    const fullName = cluster.ownedBy('b');
    b.kill();
    cluster.until(() => cluster.countOn('b') === 0, 3_000, 'recovered');
    assert.equal(cluster.ownerOf(fullName), 'd');
    assert.ok(rankings[0]?.endsWith('acd'), String(rankings[0]));
    const c = cluster.node('c');
    c.kill();
    cluster.until(() => cluster.countOn('c') === 0, 3_000, 'recovered');
  });

  test('uses a drained node as a last resort, and moves the container away as soon as possible', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 1 });
    const fullName = cluster.ownedBy('b');
    const b = cluster.node('b');
    b.kill();
    cluster.run(5_000);
    b.start('drained');
    cluster.until(
      () => cluster.ownerOf(fullName) !== 'b' && cluster.record(fullName).phase === 'serving',
      5_000,
      'moved away',
    );
    assert.ok(b.opened.includes(`${fullName} recover`), 'b served it in between');
    cluster.settle(1);
    assert.equal(cluster.copies(fullName).includes('b'), false);
  });
});

describe('a failed activation', () => {
  test('is retried on the next candidate, never on the same twice in a row; the third needs attention', () => {
    const cluster = settledCluster(4, { containers: 4, copies: 3 }, { openRetryMsMin: 50 });
    const fullName = cluster.ownedBy('b');
    const holders = cluster.copies(fullName).split(' ');
    for (const node of cluster.nodes) node.opens = 'fails';
    const tried = new Map<bigint, string>();
    cluster.onRecord = (one, { fence, owner }) => {
      if (one === fullName && owner !== undefined) tried.set(fence, cluster.nameOf(owner.node));
    };
    cluster.node('b').kill();
    cluster.until(() => cluster.eventsOf(`container.recoveryFailed ${fullName}`).length >= 4, 10_000, 'four failures');
    const names = [...tried.values()].filter((name, index) => index > 0 || name !== 'b');
    assert.ok(names.length >= 4);
    for (const [index, name] of names.entries()) {
      if (index > 0) assert.notEqual(name, names[index - 1]);
      assert.ok(holders.includes(name) && name !== 'b');
    }
    const failures = cluster.eventsOf(`container.recoveryFailed ${fullName}`);
    assert.ok(!failures[0]?.endsWith('(alarm)') && failures[3]?.endsWith('(alarm)'), failures.join('\n'));
    for (const node of cluster.nodes) node.opens = 'well';
    cluster.settle(3, 30_000);
    assert.equal(cluster.record(fullName).failures, 0);
  });

  test('is assumed after the deadline if another node could open the container', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 3 }, { openDeadlineMs: 2_000 });
    const fullName = cluster.ownedBy('b');
    cluster.node('b').kill();
    for (const node of cluster.nodes) node.opens = 'never';
    cluster.until(() => cluster.ownerOf(fullName) !== 'b', 3_000, 'taken over');
    const first = cluster.ownerOf(fullName);
    for (const node of cluster.nodes) if (node.name !== first) node.opens = 'well';
    cluster.run(1_500);
    assert.equal(cluster.ownerOf(fullName), first);
    cluster.until(() => cluster.record(fullName).phase === 'serving', 2_000, 'opened by another node');
    assert.notEqual(cluster.ownerOf(fullName), first);
    assert.match(cluster.eventsOf('container.recoveryFailed')[0] ?? '', /not opened within 2000 ms/);
  });

  test('is not assumed after the deadline if no other node could open the container', () => {
    const cluster = settledCluster(2, { containers: 2, copies: 1 }, { openDeadlineMs: 1_000 });
    const fullName = cluster.ownedBy('b');
    const b = cluster.node('b');
    b.kill();
    b.openMs = 4_000;
    b.start();
    cluster.until(() => b.serves(fullName), 6_000, 'opened in the end');
    assert.equal(cluster.eventsOf('container.recoveryFailed').length, 0);
  });

  test('is counted when the owner dies while it opens, so that a container cannot kill all nodes in turn', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 3 });
    const fullName = cluster.ownedBy('b');
    for (const node of cluster.nodes) node.opens = 'never';
    cluster.node('b').kill();
    cluster.until(() => cluster.ownerOf(fullName) === 'c' || cluster.ownerOf(fullName) === 'a', 3_000, 'taken over');
    const second = cluster.ownerOf(fullName);
    cluster.lead(second === 'a' ? 'c' : 'a');
    cluster.node(second).kill();
    cluster.until(() => cluster.record(fullName).failures === 1, 4_000, 'counted');
  });

  test('of a served container moves it to the next node, also after earlier failures', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 3 });
    const fullName = cluster.ownedBy('b');
    const seen = (): number => cluster.eventsOf(`container.recoveryFailed ${fullName}`).length;
    const serves = (): boolean => cluster.node(cluster.ownerOf(fullName)).serves(fullName);
    for (const node of cluster.nodes) node.opens = 'fails';
    cluster.node('b').failServing(fullName);
    cluster.until(() => seen() >= 2, 3_000, 'two failures');
    for (const node of cluster.nodes) node.opens = 'well';
    cluster.until(serves, 3_000, 'served');
    const [owner, count] = [cluster.ownerOf(fullName), seen()];
    cluster.node(owner).failServing(fullName);
    cluster.until(() => seen() > count && serves(), 1_000, 'served by another node');
    assert.notEqual(cluster.ownerOf(fullName), owner);
  });

  test('is seen by the next leader, too', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 3 });
    const fullName = cluster.ownedBy('b');
    for (const node of cluster.nodes) node.opens = 'fails';
    cluster.node('b').kill();
    let leads = 'a';
    cluster.onRecord = (one, { failures }) => {
      if (one !== fullName || failures === 0) return;
      const next = leads === 'a' ? 'c' : 'a';
      leads = next;
      cluster.clock.schedule(0, () => cluster.lead(next));
    };
    cluster.until(() => cluster.record(fullName).failures >= 2, 20_000, 'two failures');
    cluster.onRecord = () => {};
    for (const node of cluster.nodes) node.opens = 'well';
    cluster.until(() => cluster.record(fullName).phase === 'serving', 20_000, 'served');
  });
});
