/** Nodes that return late or together, and nodes that leave: rejoin policies, epochs, and forgetting a node. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { running, setMode, ttlMs } from '../../test/support/registration/registration-cluster.ts';

describe('what becomes of a late return', () => {
  test('rejoin active: a late node works again at once, and the reason stays visible', () => {
    const cluster = running(['a', 'b'], { rejoin: 'active' });
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'active stale_restart');
  });

  test('rejoin active: a node that an earlier late return has drained works again, one that an operator drained does not', () => {
    const cluster = running(['a', 'b', 'c'], { rejoin: 'active' });
    setMode(cluster, 'b', 'drained', 'stale_restart');
    setMode(cluster, 'c', 'drained');
    for (const name of ['b', 'c']) cluster.crash(name);
    for (const name of ['b', 'c']) cluster.start(name);
    cluster.run(1_000);
    assert.deepEqual([cluster.standing('b'), cluster.standing('c')], ['active fast_restart', 'drained admin_drain']);
  });

  test('rejoin auto: a late node is drained, and active after 60 s without a failure (L20)', () => {
    const cluster = running(['a', 'b'], { rejoin: 'auto' });
    cluster.cut('b');
    cluster.run(100_000);
    cluster.heal('b');
    cluster.run(10_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
    cluster.cut('b', 'NO_QUORUM');
    cluster.run(15_000);
    cluster.heal('b');
    cluster.run(50_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired', 'the failed renewal restarts the hold');
    cluster.run(20_000);
    assert.equal(cluster.standing('b'), 'active registration_expired');
  });

  test('rejoin auto never undoes what an operator did', () => {
    const cluster = running(['a', 'b'], { rejoin: 'auto' });
    setMode(cluster, 'b', 'drained');
    cluster.run(300_000);
    assert.equal(cluster.standing('b'), 'drained admin_drain');
  });

  test('a node that was lost while it drained returns drained', () => {
    const cluster = running(['a', 'b']);
    setMode(cluster, 'b', 'draining');
    cluster.crash('b');
    cluster.run(100_000);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'drained drain_complete');
  });
});

describe('epochs', () => {
  test('a node that starts right after a leader change waits for a survivor of the previous epoch', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    for (const name of ['a', 'b']) cluster.cut(name);
    cluster.lead('b');
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.node('c').host?.state?.mode, undefined);
    for (const name of ['a', 'b']) cluster.heal(name);
    cluster.run(5_000);
    assert.equal(cluster.standing('c'), 'active fast_restart');
    assert.equal(cluster.epoch(), 1);
  });

  test('a node that was cut off through a full restart adopts the epoch of the others', () => {
    const cluster = running(['a', 'b', 'c']);
    const lease = cluster.row('c')?.registration?.entry.lease;
    assert.ok(lease);
    cluster.cut('c');
    for (const name of ['a', 'b']) cluster.crash(name);
    cluster.run(1_000);
    cluster.lead('b');
    for (const name of ['a', 'b']) cluster.start(name);
    cluster.run(10_000);
    assert.equal(cluster.standing('a'), 'active full_cluster_restart');
    assert.equal(cluster.epoch(), 2);
    cluster.heal('c');
    cluster.run(15_000);
    assert.equal(cluster.standing('c'), 'active join');
    assert.equal(cluster.row('c')?.state?.record?.epoch, 2);
    cluster.crash('c');
    cluster.run(ttlMs);
    cluster.start('c');
    cluster.run(1_000);
    assert.equal(cluster.standing('c'), 'drained stale_restart', 'and is late when it comes late');
  });

  test('nodes stopped one by one and started together are a full restart: all become active', () => {
    const cluster = running(['a', 'b', 'c']);
    for (const name of ['c', 'b', 'a']) {
      cluster.crash(name);
      cluster.run(60_000);
    }
    cluster.lead('a');
    for (const name of ['b', 'c', 'a']) cluster.start(name);
    cluster.run(10_000);
    for (const name of ['a', 'b', 'c']) assert.equal(cluster.standing(name), 'active full_cluster_restart');
  });
});

describe('leaving for good', () => {
  test('the node is forgotten, and a later start is its first', () => {
    const cluster = running(['a', 'b']);
    const ends: boolean[] = [];
    cluster.node('b').host?.leave(({ ok }) => ends.push(ok));
    cluster.run(10);
    assert.deepEqual(ends, [true]);
    assert.equal(cluster.row('b'), undefined);
    cluster.start('b');
    cluster.run(1_000);
    assert.equal(cluster.standing('b'), 'active join');
  });
});
