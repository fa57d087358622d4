/** The leader's note that a node is lost: never too early, once, and taken up by the next leader. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clusterKey, keyRanges } from '../registry/cluster-keys.ts';
import { ExpiryWorker } from './expiry-worker.ts';
import { type RegistrationTestCluster, running, ttlMs } from '../../test/support/registration/registration-cluster.ts';

function isLost(cluster: RegistrationTestCluster, name: string): boolean {
  return cluster.row(name)?.state?.record?.lost === true;
}

function gone(cluster: RegistrationTestCluster, name: string): void {
  for (let ms = 0; ms <= ttlMs && cluster.row(name)?.registration !== undefined; ms += 100) cluster.run(100);
  assert.equal(cluster.row(name)?.registration, undefined);
}

describe('expiry worker', () => {
  test('a tenth of a registration after its end, and only once', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    gone(cluster, 'c');
    cluster.run(3_000);
    assert.equal(isLost(cluster, 'c'), false);
    cluster.run(300);
    assert.equal(isLost(cluster, 'c'), true);
    cluster.run(10 * ttlMs);
    assert.equal(cluster.log.filter((line) => line.endsWith('c node.lost')).length, 1);
    assert.equal(cluster.standing('c'), 'lost join');
  });

  test('D7: a new leader keeps still for one TTL, and then does what the old one did not', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    gone(cluster, 'c');
    cluster.lead('b');
    cluster.run(ttlMs - 1_000);
    assert.equal(isLost(cluster, 'c'), false);
    cluster.run(1_100);
    assert.equal(isLost(cluster, 'c'), true);
  });

  test('who is back in time is not lost', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.crash('c');
    gone(cluster, 'c');
    cluster.run(1_000);
    cluster.start('c');
    cluster.run(3 * ttlMs);
    assert.equal(isLost(cluster, 'c'), false);
    assert.equal(cluster.standing('c'), 'drained stale_restart');
  });

  test('nobody is lost while nobody is registered', () => {
    const cluster = running(['a', 'b']);
    for (const name of ['a', 'b']) cluster.cut(name);
    cluster.run(20 * ttlMs);
    assert.equal(isLost(cluster, 'a') && isLost(cluster, 'b'), false);
  });

  test('the note holds only while the node is away and the one who was there stays', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    gone(cluster, 'b');
    const { entries } = cluster.registry.keyspace.range(keyRanges.roster, 100);
    const worker = new ExpiryWorker(cluster.options);
    worker.step(0, { kind: 'leading' });
    worker.step(0, { kind: 'loaded', entries });
    const write = worker.step(ttlMs, { kind: 'expired', timer: 'wake' }).find(({ kind }) => kind === 'write');
    assert.ok(write?.kind === 'write');
    const witness = cluster.row('a')?.registration?.entry;
    const state = cluster.row('b')?.state?.entry;
    assert.deepEqual(write.transaction.compare, [
      {
        key: clusterKey({ kind: 'registration', node: cluster.node('b').id }),
        target: 'version',
        is: 'equal',
        than: 0,
      },
      { key: state?.key, target: 'modRevision', is: 'equal', than: state?.modRevision },
      { key: witness?.key, target: 'createRevision', is: 'equal', than: witness?.createRevision },
    ]);
  });

  test('who does not lead notes nothing', () => {
    const cluster = running(['a', 'b', 'c']);
    cluster.leaders.elect('c');
    cluster.crash('b');
    cluster.run(5 * ttlMs);
    assert.equal(cluster.row('b')?.registration, undefined);
    assert.equal(isLost(cluster, 'b'), false);
  });

  test('a lost node whose state cannot be read is drained when it returns', () => {
    const cluster = running(['a', 'b']);
    cluster.crash('b');
    const key = clusterKey({ kind: 'state', node: cluster.node('b').id });
    cluster.write({ kind: 'put', key, value: new TextEncoder().encode('{"mode":"active"}') });
    cluster.run(3 * ttlMs);
    assert.equal(isLost(cluster, 'b'), true);
    cluster.start('b');
    cluster.run(5_000);
    assert.equal(cluster.standing('b'), 'drained registration_expired');
  });
});
