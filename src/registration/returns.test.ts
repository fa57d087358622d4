/** Nodes that return late or together, and nodes that leave: rejoin policies, epochs, and the removal of a node. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startedCluster, setMode, ttlMs } from '../../test/support/registration/registration-cluster.ts';

describe('a late return', () => {
  test('with `rejoin: active` is active at once, and keeps its reason', () => {
    const cluster = startedCluster(['a', 'b'], { rejoin: 'active' });
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'active stale_restart');
  });

  test('with `rejoin: active` is activated at a later start, unlike a node that an operator has drained', () => {
    const cluster = startedCluster(['a', 'b', 'c'], { rejoin: 'active' });
    setMode(cluster, 'b', 'drained', 'stale_restart');
    setMode(cluster, 'c', 'drained');
    for (const name of ['b', 'c']) cluster.crash(name);
    for (const name of ['b', 'c']) cluster.start(name);
    cluster.run(1_000);
    assert.deepEqual([cluster.statusOf('b'), cluster.statusOf('c')], ['active fast_restart', 'drained admin_drain']);
  });

  test('with `rejoin: auto` is drained, and active after 60 s without a failed renewal (L20)', () => {
    const cluster = startedCluster(['a', 'b'], { rejoin: 'auto' });
    cluster.cut('b');
    cluster.run(100_000);
    cluster.heal('b');
    cluster.run(10_000);
    assert.equal(cluster.statusOf('b'), 'drained registration_expired');
    cluster.cut('b', 'NO_QUORUM');
    cluster.run(15_000);
    cluster.heal('b');
    cluster.run(50_000);
    assert.equal(cluster.statusOf('b'), 'drained registration_expired', 'the failed renewal restarts the hold');
    cluster.run(20_000);
    assert.equal(cluster.statusOf('b'), 'active registration_expired');
  });

  test('with `rejoin: auto` never activates a node that an operator has drained', () => {
    const cluster = startedCluster(['a', 'b'], { rejoin: 'auto' });
    setMode(cluster, 'b', 'drained');
    cluster.run(300_000);
    assert.equal(cluster.statusOf('b'), 'drained admin_drain');
  });

  test('of a draining node ends its drain', () => {
    const cluster = startedCluster(['a', 'b']);
    setMode(cluster, 'b', 'draining');
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'drained drain_complete');
  });
});

describe('an epoch', () => {
  test('continues after a leader change: a starting node waits for a survivor', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('c');
    for (const name of ['a', 'b']) cluster.cut(name);
    cluster.lead('b');
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, undefined);
    for (const name of ['a', 'b']) cluster.heal(name);
    cluster.run(5_000);
    assert.equal(cluster.statusOf('c'), 'active fast_restart');
    assert.equal(cluster.epoch(), 1);
  });

  test('that the others began in a full restart is adopted by a node that was cut off meanwhile', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    const lease = cluster.entry('c')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.cut('c');
    for (const name of ['a', 'b']) cluster.crash(name);
    cluster.run(1_000);
    cluster.lead('b');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.run(10_000);
    assert.equal(cluster.statusOf('a'), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
    cluster.heal('c');
    cluster.run(15_000);
    assert.equal(cluster.statusOf('c'), 'active join');
    assert.equal(cluster.entry('c')?.state?.record?.epoch, 2);
    cluster.crash('c');
    cluster.run(ttlMs);
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('c'), 'drained stale_restart', 'a later return is late');
  });

  test('ends when the nodes stop one by one; started together they all become active', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    for (const name of ['c', 'b', 'a']) {
      cluster.crash(name);
      cluster.run(60_000);
    }
    cluster.lead('a');
    for (const name of ['b', 'c', 'a']) cluster.start(name);
    cluster.run(10_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.statusOf(name), 'active full_cluster_restart');
  });
});

describe('a node that leaves for good', () => {
  test('is removed, and joins as a new node at its next start', () => {
    const cluster = startedCluster(['a', 'b']);
    const ends: boolean[] = [];
    cluster.node('b').host?.leave(({ ok }) => ends.push(ok));
    cluster.run(10);
    assert.deepEqual(ends, [true]);
    assert.equal(cluster.entry('b'), undefined);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.statusOf('b'), 'active join');
  });
});
