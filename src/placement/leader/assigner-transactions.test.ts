import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import { type Fence, fenceOf } from '../../base/fence.ts';
import type { RangeResult, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import { ClusterView, type KnownNode } from '../state/cluster-view.ts';
import type { HeldContainer } from '../state/node-holdings.ts';
import {
  startMoveTransaction,
  markNewNodeTransaction,
  endDrainTransaction,
  unmarkNewNodeTransaction,
  updateDrainTransaction,
} from './assigner-transactions.ts';

describe('a guarded transaction', () => {
  /** Whether each kind of transaction succeeds under a fence. */
  function attempts(fence: Uint8Array): readonly boolean[] {
    const cluster = startedCluster(3);
    cluster.node('a').leadership.lose();
    new FakePlacer(cluster, 1).create(1, 'a');
    const view = viewOf(cluster);
    const [a, c] = ['a', 'c'].map((name) => view.nodes.get(cluster.node(name).id)) as [KnownNode, KnownNode];
    assert.ok(a.state?.record);
    const state = a.state.record;
    const all: readonly RegistryTransaction[] = [
      endDrainTransaction(fence, a, { ...state, mode: 'drained' }),
      updateDrainTransaction(fence, a, undefined),
      unmarkNewNodeTransaction(fence, c),
      markNewNodeTransaction(fence, c),
      startMoveTransaction(fence, containerOf(view, 'q/0'), c, 'drain'),
    ];
    return all.map((transaction) => {
      const outcome = cluster.await<TransactionResult>((done) => cluster.registry.transact(transaction, {}, done));
      return outcome.ok && outcome.value.succeeded;
    });
  }

  function containerOf(view: ClusterView, text: string): HeldContainer {
    const found = view.containers.get(text);
    assert.ok(found);
    return found;
  }

  function viewOf(cluster: DrainTestCluster): ClusterView {
    const range = cluster.await<RangeResult>((done) => cluster.registry.range(keyRanges.cluster, {}, done));
    assert.ok(range.ok);
    return ClusterView.from(range.value.entries, range.value.revision, 0);
  }

  test('is refused under any other fence than that of the leader', () => {
    const bytes = (fence: Fence): Uint8Array => new TextEncoder().encode(String(fence));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(1, 1)))), new Set([true]));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(0, 1)))), new Set([false]));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(2, 1)))), new Set([false]));
  });

  /** How many of the transactions succeed, one after the other. */
  function succeeded(cluster: DrainTestCluster, transactions: readonly RegistryTransaction[]): number {
    const outcomes = transactions.map((transaction) =>
      cluster.await<TransactionResult>((done) => cluster.registry.transact(transaction, {}, done)),
    );
    return outcomes.filter((outcome) => outcome.ok && outcome.value.succeeded).length;
  }

  test('moves a container only if its record is unchanged, so the second of two moves is refused', () => {
    const cluster = startedCluster(3);
    const placer = new FakePlacer(cluster, 1);
    placer.moveMs = undefined;
    placer.create(2, 'a');
    cluster.node('a').leadership.lose();
    const view = viewOf(cluster);
    const [b, c] = ['b', 'c'].map((name) => view.nodes.get(cluster.node(name).id)) as [KnownNode, KnownNode];
    assert.ok(view.assigner);
    const { value: fence } = view.assigner;
    const seen = containerOf(view, 'q/0');
    assert.equal(
      succeeded(cluster, [
        startMoveTransaction(fence, seen, b, 'drain'),
        startMoveTransaction(fence, seen, c, 'spread'),
      ]),
      1,
    );
    const { move, copies } = placer.record('0');
    assert.deepEqual(move, { to: b.id, cause: 'drain', step: 'copying' });
    assert.deepEqual(copies, [cluster.node('a').id, b.id], 'the destination becomes a replica');
    const other = containerOf(view, 'q/1');
    cluster.node('b').setMode('draining', 'admin_drain');
    cluster.run(100);
    assert.equal(
      succeeded(cluster, [startMoveTransaction(fence, other, b, 'drain')]),
      0,
      'its target is no longer active',
    );
    assert.throws(() =>
      startMoveTransaction(fence, { ...other, record: { ...other.record, phase: 'opening' } }, c, 'drain'),
    );
    assert.throws(() => startMoveTransaction(fence, other, view.nodes.get(cluster.node('a').id) as KnownNode, 'drain'));
  });

  test('moves nothing to a node whose state or registration has changed', () => {
    for (const change of ['state', 'registration'] as const) {
      const cluster = startedCluster(2);
      new FakePlacer(cluster, 1).create(1, 'a');
      cluster.node('a').leadership.lose();
      const view = viewOf(cluster);
      const { id } = cluster.node('b');
      if (change === 'state') cluster.node('b').setMode('draining', 'admin_drain');
      else cluster.node('b').kill();
      cluster.run(5_000);
      const node = view.nodes.get(id);
      assert.ok(node && view.assigner);
      const transaction = startMoveTransaction(view.assigner.value, containerOf(view, 'q/0'), node, 'drain');
      assert.equal(succeeded(cluster, [transaction]), 0, change);
    }
  });
});
