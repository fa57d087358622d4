/** Every key that `clusterKey` builds is parsed as the same key, and no other text is parsed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseNodeId } from '../base/ids.ts';
import { type ClusterKey, clusterKey, keyRanges, parseClusterKey } from './cluster-keys.ts';

const node = parseNodeId('0123456789abcdef0123456789abcdef');

describe('cluster keys', () => {
  test('are parsed as what they were built from', () => {
    const keys: readonly ClusterKey[] = [
      { kind: 'assigner' },
      { kind: 'containerNode', node },
      { kind: 'placer' },
      { kind: 'lastDeletion' },
      { kind: 'lastPool' },
      { kind: 'pool', pool: 'orders' },
      { kind: 'container', pool: 'orders', container: '12' },
      { kind: 'drain', node },
      { kind: 'spread', node },
      { kind: 'epoch' },
      { kind: 'load', node },
      { kind: 'state', node },
      { kind: 'stopping', node },
      { kind: 'registration', node },
    ];
    for (const key of keys) assert.deepEqual(parseClusterKey(clusterKey(key)), key);
  });

  test('D11: refuse names that another key could contain', () => {
    for (const name of ['', 'a/b', '..', 'A', '\0', 'a\n', 'x'.repeat(64)]) {
      assert.throws(
        () => clusterKey({ kind: 'container', pool: name, container: '1' }),
        /cannot be the name of a pool/,
      );
      assert.throws(() => clusterKey({ kind: 'container', pool: 'p', container: name }), /of a container/);
    }
  });

  test('are the only texts that are parsed', () => {
    const foreign = [
      '',
      '/',
      '/cluster',
      '/cluster/epoch/1',
      `/cluster/nodes/${node}`,
      `/cluster/nodes/${node}/`,
      `/cluster/nodes/${node}/other`,
      `/cluster/nodes/${node}/p/1`,
      '/cluster/nodes/me/state',
      `/cluster/register/${node}/x`,
      `/cluster/register/${node.toUpperCase()}`,
      `cluster/register/${node}`,
      '/cluster/unassigned/p/1',
      '/cluster/containers/P/1',
      `/pools/nodes/${node}/state`,
    ];
    for (const key of foreign) assert.equal(parseClusterKey(key), undefined, key);
  });

  test('of registrations, states and the epoch form one range without containers', () => {
    const { from, to } = keyRanges.nodeDirectory;
    const inside = (key: ClusterKey): boolean => clusterKey(key) >= from && clusterKey(key) < to;
    assert.ok(inside({ kind: 'epoch' }) && inside({ kind: 'state', node }) && inside({ kind: 'registration', node }));
    assert.ok(!inside({ kind: 'container', pool: 'zzz', container: '1' }));
  });
});
