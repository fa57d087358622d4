/** The leader marks a node as lost: never too early, once, and the next leader continues. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clusterKey, keyRanges } from '../registry/cluster-keys.ts';
import { ExpiryWorker } from './expiry-worker.ts';
import {
  type RegistrationTestCluster,
  startedCluster,
  ttlMs,
} from '../../test/support/registration/registration-cluster.ts';

function isLost(cluster: RegistrationTestCluster, name: string): boolean {
  return cluster.entry(name)?.state?.record?.lost === true;
}

function runUntilExpired(cluster: RegistrationTestCluster, name: string): void {
  for (let ms = 0; ms <= ttlMs && cluster.entry(name)?.registration !== undefined; ms += 100) cluster.run(100);
  assert.equal(cluster.entry(name)?.registration, undefined);
}

describe('the expiry worker', () => {
  test('marks a node as lost a tenth of the TTL after its registration has expired, and only once', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('c');
    runUntilExpired(cluster, 'c');
    cluster.run(3_000);
    assert.equal(isLost(cluster, 'c'), false);
    cluster.run(300);
    assert.equal(isLost(cluster, 'c'), true);
    cluster.run(10 * ttlMs);
    assert.equal(cluster.log.filter((line) => line.endsWith('c node.lost')).length, 1);
    assert.equal(cluster.statusOf('c'), 'lost join');
  });

  test('D7: marks no node for one TTL after a leader change, and then those that the old leader did not', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('c');
    runUntilExpired(cluster, 'c');
    cluster.lead('b');
    cluster.run(ttlMs - 1_000);
    assert.equal(isLost(cluster, 'c'), false);
    cluster.run(1_100);
    assert.equal(isLost(cluster, 'c'), true);
  });

  test('does not mark a node that returns in time', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.crash('c');
    runUntilExpired(cluster, 'c');
    cluster.run(1_000);
    cluster.start('c');
    cluster.run(3 * ttlMs);
    assert.equal(isLost(cluster, 'c'), false);
    assert.equal(cluster.statusOf('c'), 'drained stale_restart');
  });

  test('marks no node while none is registered', () => {
    const cluster = startedCluster(['a', 'b']);
    for (const name of ['a', 'b']) cluster.cut(name);
    cluster.run(20 * ttlMs);
    assert.equal(isLost(cluster, 'a') && isLost(cluster, 'b'), false);
  });

  test('guards the mark by the missing registration, the unchanged state and the witness', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    runUntilExpired(cluster, 'b');
    const { entries } = cluster.registry.keyspace.range(keyRanges.nodeDirectory, 100);
    const worker = new ExpiryWorker(cluster.options);
    worker.step(0, { kind: 'elected' });
    worker.step(0, { kind: 'loaded', entries });
    const write = worker.step(ttlMs, { kind: 'expired', timer: 'wake' }).find(({ kind }) => kind === 'write');
    assert.ok(write?.kind === 'write');
    const witness = cluster.entry('a')?.registration?.entry;
    const state = cluster.entry('b')?.state?.entry;
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

  test('marks no node while it does not lead', () => {
    const cluster = startedCluster(['a', 'b', 'c']);
    cluster.leaders.elect('c');
    cluster.crash('b');
    cluster.run(5 * ttlMs);
    assert.equal(cluster.entry('b')?.registration, undefined);
    assert.equal(isLost(cluster, 'b'), false);
  });

  test('marks a node whose state is malformed, which then returns drained', () => {
    const cluster = startedCluster(['a', 'b']);
    cluster.crash('b');
    const key = clusterKey({ kind: 'state', node: cluster.node('b').id });
    cluster.write({ kind: 'put', key, value: new TextEncoder().encode('{"mode":"active"}') });
    cluster.run(3 * ttlMs);
    assert.equal(isLost(cluster, 'b'), true);
    cluster.start('b');
    cluster.run(5_000);
    assert.equal(cluster.statusOf('b'), 'drained registration_expired');
  });
});
