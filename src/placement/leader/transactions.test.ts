import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type AssignmentTestCluster, settled } from '../../../test/support/placement/assignment-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import { type Fence, fenceOf } from '../../base/fence.ts';
import type { RangeResult, RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import { ClusterView, type KnownNode } from '../state/cluster-view.ts';
import type { HeldContainer } from '../state/node-holdings.ts';
import {
  askToRelease,
  startMoveTransaction,
  markNewNodeTransaction,
  endDrainTransaction,
  unmarkNewNodeTransaction,
  give,
  giveBack,
  updateDrainTransaction,
  reclaim,
} from './transactions.ts';

describe('guards', () => {
  /** What each transaction of a leader does to the same cluster, under a fence. */
  function attempts(fence: Uint8Array): readonly boolean[] {
    const cluster = settled(3, 6);
    cluster.node('a').leadership.lose();
    cluster.node('b').kill();
    cluster.create(1);
    new FakePlacer(cluster, 1).create(1, 'a');
    cluster.run(5_000);
    const view = viewOf(cluster);
    const [a, b, c] = ['a', 'b', 'c'].map((name) => view.nodes.get(cluster.node(name).id)) as [
      KnownNode,
      KnownNode,
      KnownNode,
    ];
    const [lost] = [...b.assignments.values()];
    const [held] = [...a.assignments.values()];
    const [waiting] = [...view.unassigned.values()];
    assert.ok(lost && held && waiting && a.state?.record);
    const state = a.state.record;
    const all: readonly RegistryTransaction[] = [
      give(fence, waiting, a),
      reclaim(fence, b, lost),
      askToRelease(fence, a.id, held, { reason: 'rebalance', to: undefined }, undefined),
      endDrainTransaction(fence, a, { ...state, mode: 'drained' }),
      updateDrainTransaction(fence, a, undefined),
      unmarkNewNodeTransaction(fence, c),
      markNewNodeTransaction(fence, c),
      startMoveTransaction(fence, containerOf(view, 'q/0'), c, 'drain'),
    ];
    return all.map((transaction) => {
      const outcome = cluster.ask<TransactionResult>((done) => cluster.registry.transact(transaction, {}, done));
      return outcome.ok && outcome.value.succeeded;
    });
  }

  function containerOf(view: ClusterView, text: string): HeldContainer {
    const found = view.containers.get(text);
    assert.ok(found);
    return found;
  }

  function viewOf(cluster: AssignmentTestCluster): ClusterView {
    const range = cluster.ask<RangeResult>((done) => cluster.registry.range(keyRanges.cluster, {}, done));
    assert.ok(range.ok);
    return ClusterView.from(range.value.entries, range.value.revision, 0);
  }

  test('whatever a leader writes is refused under any other fence than the standing one', () => {
    const bytes = (fence: Fence): Uint8Array => new TextEncoder().encode(String(fence));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(1, 1)))), new Set([true]));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(0, 1)))), new Set([false]));
    assert.deepEqual(new Set(attempts(bytes(fenceOf(2, 1)))), new Set([false]));
  });

  /** How many of them were carried out, one after the other. */
  function succeeded(cluster: AssignmentTestCluster, transactions: readonly RegistryTransaction[]): number {
    const outcomes = transactions.map((transaction) =>
      cluster.ask<TransactionResult>((done) => cluster.registry.transact(transaction, {}, done)),
    );
    return outcomes.filter((outcome) => outcome.ok && outcome.value.succeeded).length;
  }

  test('what was given, taken back or given back already is refused: late news decide nothing', () => {
    const cluster = settled(2, 2);
    cluster.node('a').leadership.lose();
    for (const { held } of cluster.nodes) held.stop();
    cluster.create(1);
    cluster.run(100);
    const view = viewOf(cluster);
    const [a, b] = ['a', 'b'].map((name) => view.nodes.get(cluster.node(name).id)) as [KnownNode, KnownNode];
    const [waiting] = [...view.unassigned.values()];
    const [held] = [...a.assignments.values()];
    assert.ok(waiting && held && view.assigner);
    const fence = view.assigner.value;
    const back = { reason: 'bounced', to: undefined } as const;
    assert.equal(succeeded(cluster, [give(fence, waiting, a), give(fence, waiting, b)]), 1);
    assert.equal(succeeded(cluster, [reclaim(fence, a, held)]), 0, 'its owner is registered');
    assert.equal(succeeded(cluster, [giveBack(a.id, held, back, 0), giveBack(a.id, held, back, 0)]), 1);
  });

  test('a container is moved from the record that was seen, and only by the first of two', () => {
    const cluster = settled(3, 0);
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
    assert.deepEqual(copies, [cluster.node('a').id, b.id], 'who gets it is told to keep its state');
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

  test('nothing is given to a node whose state or registration is another than was seen', () => {
    for (const change of ['state', 'registration'] as const) {
      const cluster = settled(1, 0);
      const { id } = cluster.node('a');
      cluster.run(100);
      cluster.node('a').leadership.lose();
      cluster.create(1);
      cluster.run(100);
      const view = viewOf(cluster);
      if (change === 'state') cluster.node('a').setMode('draining', 'admin_drain');
      else cluster.node('a').kill();
      cluster.run(5_000);
      const [waiting] = [...view.unassigned.values()];
      const node = view.nodes.get(id);
      assert.ok(waiting && node && view.assigner);
      const transaction = give(view.assigner.value, waiting, node);
      const outcome = cluster.ask<TransactionResult>((done) => cluster.registry.transact(transaction, {}, done));
      assert.ok(outcome.ok && !outcome.value.succeeded, change);
    }
  });
});
