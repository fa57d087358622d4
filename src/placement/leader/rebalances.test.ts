import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import type { Outcome } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { type RangeResult, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import type { RebalanceOptions } from '../balance/rebalance-options.ts';
import type { RebalancePlan } from '../balance/rebalance-plan.ts';
import type { RebalanceResult } from '../balance/rebalancer.ts';

type Both = { readonly cluster: DrainTestCluster; readonly placer: FakePlacer };

/** Nodes a, b, c ..., of which a leads, and served containers on the nodes in `owners`. */
function clusterWith(nodes: number, containers: number, owners: string, options: Partial<RebalanceOptions> = {}): Both {
  const cluster = startedCluster(nodes, { mode: 'off', ...options });
  const placer = new FakePlacer(cluster, 2);
  placer.create(containers, owners);
  return { cluster, placer };
}

function drain({ cluster }: Both, name: string, parallelMax = 1): Outcome<DrainProgress> {
  const request = { deadlineMs: 60_000, parallelMax };
  return cluster.await((done) => cluster.operations.drain(cluster.node(name).id, request, done));
}

function rebalance({ cluster }: Both, request: { dryRun?: boolean; movesMax?: number }): Outcome<RebalanceResult> {
  const leader = cluster.nodes.find((node) => node.leadership.isLeading()) ?? cluster.node('a');
  return cluster.await((done) => leader.assigner.rebalance(request, done));
}

function counts({ placer }: Both, names: string): readonly number[] {
  return names.split('').map((name) => placer.owned(name));
}

function rangeOf({ cluster }: Both, key: string): RangeResult {
  const found = cluster.await<RangeResult>((done) => cluster.registry.range(onlyKey(key), {}, done));
  assert.ok(found.ok);
  return found.value;
}

describe('a rebalance', () => {
  const manual = { mode: 'manual', blacklist: ['q/*'], cooldownMs: 0 } as const;

  test('by request moves the planned containers with the cause rebalance', () => {
    const both = clusterWith(3, 12, 'ab', { ...manual, blacklist: [], movesPerHourMax: 0 });
    const dry = rebalance(both, { dryRun: true, movesMax: 4 });
    assert.ok(dry.ok && dry.value.moves.every(({ name }) => name.startsWith('q/')));
    assert.equal(both.placer.moves.length, 0);
    const result = rebalance(both, { movesMax: 4 });
    assert.ok(result.ok);
    assert.deepEqual([result.value.started, result.value.failed], [result.value.moves.length, []]);
    both.cluster.until(() => both.placer.owned('c') === result.value.moves.length, 3_000, 'moved');
    assert.ok(both.placer.moves.every(({ cause }) => cause === 'rebalance'));
    assert.ok(both.cluster.balance().balanced);
  });

  test('moves nothing to a node that membership has declared dead', () => {
    const both = clusterWith(3, 12, 'ab', { ...manual, blacklist: [], movesPerHourMax: 0, variationMax: 0 });
    const { cluster } = both;
    cluster.gone.add(cluster.node('c').id);
    const { activeNodes, nodes } = cluster.balance();
    assert.deepEqual(
      [activeNodes, nodes.map(({ name, isGone }) => `${name} ${isGone}`)],
      [2, ['a false', 'b false', 'c true']],
    );
    const plan = cluster.await<RebalancePlan>((done) => cluster.operations.rebalancePlan(10, done));
    assert.ok(plan.ok);
    const result = rebalance(both, { movesMax: 4 });
    assert.ok(result.ok);
    const target = (move: { readonly to: NodeId }): boolean => cluster.gone.has(move.to);
    assert.deepEqual([...plan.value.moves, ...result.value.moves].filter(target), []);
  });

  test('leaves containers alone that move, open or have no owner', () => {
    const both = clusterWith(3, 4, 'a', { ...manual, blacklist: [], movesPerHourMax: 0 });
    both.placer.moveMs = undefined;
    const to = both.cluster.node('b').id;
    const copies = [both.cluster.node('a').id, to];
    both.placer.change('0', { phase: 'opening' });
    both.placer.change('1', { copies, move: { to, cause: 'admin', step: 'handing' } });
    both.placer.change('2', { owner: undefined });
    const plan = rebalance(both, { dryRun: true, movesMax: 100 });
    assert.ok(plan.ok);
    assert.ok(plan.value.moves.every(({ name }) => name === 'q/3'));
  });

  test('leaves the blacklist alone', () => {
    const both = clusterWith(3, 12, 'ab', manual);
    const plan = rebalance(both, { dryRun: true });
    assert.ok(plan.ok && plan.value.moves.length === 0);
  });

  test('in automatic mode moves one container per interval', () => {
    const automatic = { mode: 'automatic', intervalMs: 5_000, cooldownMs: 0, variationMax: 0.1 } as const;
    const both = clusterWith(2, 12, 'ab', automatic);
    for (const container of ['1', '3', '5', '7'])
      both.placer.change(container, { owner: { node: both.cluster.node('a').id, generation: 1 } });
    both.cluster.until(() => both.placer.owned('a') === both.placer.owned('b'), 60_000, 'even');
    assert.equal(both.placer.movingMost, 1);
    const times = both.placer.moves.map(({ atMs }) => atMs);
    assert.ok(times.every((atMs, index) => index === 0 || atMs - (times[index - 1] as number) >= 5_000));
    assert.ok(both.placer.moves.every(({ cause }) => cause === 'rebalance'));
  });
});

describe('a request for a rebalance', () => {
  test('DA-5: a dry run moves nothing, and neither does a balanced cluster', () => {
    const uneven = clusterWith(3, 12, 'ab', { mode: 'manual', cooldownMs: 0, movesPerHourMax: 0 });
    const dry = rebalance(uneven, { dryRun: true });
    assert.ok(dry.ok && dry.value.moves.length > 0 && dry.value.started === 0);
    const even = clusterWith(3, 12, 'abc', { mode: 'manual' });
    const result = rebalance(even, { movesMax: 4 });
    assert.ok(result.ok && result.value.moves.length === 0 && result.value.why === 'balanced');
    for (const { cluster, placer } of [uneven, even]) {
      cluster.run(5_000);
      assert.deepEqual(placer.moves, []);
    }
  });

  test('is refused with one active node, in the mode off, by a node that does not lead, and for zero moves', () => {
    const alone = rebalance(clusterWith(1, 3, 'a', { mode: 'manual' }), {});
    assert.ok(!alone.ok && alone.error.code === 'PRECONDITION' && /at least 2/.test(alone.error.message));
    const off = rebalance(clusterWith(2, 3, 'ab'), {});
    assert.ok(!off.ok && off.error.code === 'PRECONDITION');
    const both = clusterWith(2, 3, 'ab', { mode: 'manual' });
    const elsewhere = both.cluster.await<RebalanceResult>((done) =>
      both.cluster.node('b').assigner.rebalance({}, done),
    );
    assert.ok(!elsewhere.ok && elsewhere.error.code === 'NOT_LEADER');
    const none = rebalance(both, { movesMax: 0 });
    assert.ok(!none.ok && none.error.code === 'BAD_ARGUMENT');
  });

  test('is not needed in automatic mode, which keeps to the moves of an hour', () => {
    const limits = { intervalMs: 1_000, cooldownMs: 0, variationMax: 0, movesPerHourMax: 2 };
    const both = clusterWith(2, 12, 'a', { mode: 'automatic', ...limits });
    both.cluster.run(600_000);
    assert.equal(both.placer.moves.length, 2);
  });

  test('DA-6: emptied and activated again, a node gets its share by itself', () => {
    const automatic = { mode: 'automatic', intervalMs: 5_000, cooldownMs: 1_000, variationMax: 0.2 } as const;
    const both = clusterWith(3, 12, 'abc', automatic);
    const { cluster, placer } = both;
    assert.ok(drain(both, 'b').ok);
    cluster.until(() => cluster.node('b').mode === 'drained', 30_000, 'b is drained');
    assert.deepEqual([placer.owned('b'), placer.held('b')], [0, 0]);
    cluster.node('b').setMode('active', 'admin_activate');
    cluster.until(() => placer.owned('b') > 0 && cluster.balance().variation < 0.25, 60_000, 'b has its share');
    assert.equal(cluster.balance().containers, 12);
  });
});

describe('a new node', () => {
  const limits = { mode: 'manual', cooldownMs: 0, movesPerHourMax: 100, variationMax: 0.1 } as const;

  function isMarked({ cluster }: Both, name: string): boolean {
    const { id } = cluster.node(name);
    return cluster.node('a').assigner.view?.nodes.get(id)?.spread !== undefined;
  }

  test('gets its share without a request, one container after the other, also in the mode manual', () => {
    const both = clusterWith(2, 12, 'ab', limits);
    both.cluster.run(60_000);
    assert.equal(both.placer.moves.length, 0, 'nothing moves without a new node');
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 4, 30_000, 'c has its share');
    assert.ok(both.placer.moves.every(({ cause, to }) => cause === 'spread' && to === both.cluster.node('c').id));
    assert.equal(both.placer.movingMost, 1);
    both.cluster.until(() => !isMarked(both, 'c'), 5_000, 'the mark is gone');
    both.cluster.run(600_000);
    assert.deepEqual(counts(both, 'abc'), [4, 4, 4]);
    assert.equal(both.placer.moves.length, 4, 'and no more');
  });

  test('gets nothing in the mode off, or if a move would not help', () => {
    const off = clusterWith(2, 12, 'ab', { ...limits, mode: 'off' });
    off.cluster.add(1);
    off.cluster.run(600_000);
    assert.equal(off.placer.moves.length, 0);
    const few = clusterWith(2, 2, 'ab', limits);
    few.cluster.add(2);
    few.cluster.run(600_000);
    assert.equal(few.placer.moves.length, 0);
    assert.ok(!isMarked(few, 'c'));
  });

  test('is also one that was drained and activated again', () => {
    const both = clusterWith(3, 12, 'abc', limits);
    drain(both, 'c', 4);
    both.cluster.until(() => both.cluster.node('c').mode === 'drained', 10_000, 'drained');
    const before = both.placer.moves.length;
    both.cluster.node('c').setMode('active', 'admin_activate');
    both.cluster.until(() => both.placer.owned('c') === 4, 30_000, 'c has its share');
    assert.ok(both.placer.moves.slice(before).every(({ cause }) => cause === 'spread'));
  });

  test('gets the rest of its share from the next leader', () => {
    const both = clusterWith(2, 30, 'ab', limits);
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 3, 30_000, 'three have moved');
    both.cluster.lead('b');
    both.cluster.until(() => both.placer.owned('c') >= 9 && both.cluster.balance().balanced, 60_000, 'even');
  });

  test('gets its share within the moves of an hour, without the cooldown of new containers', () => {
    const both = clusterWith(2, 30, 'ab', { ...limits, movesPerHourMax: 3, cooldownMs: 60_000 });
    both.cluster.add(1);
    both.cluster.run(30_000);
    assert.equal(both.placer.moves.length, 3);
    both.cluster.run(3_600_000);
    assert.equal(both.placer.moves.length, 6);
  });

  test('loses its mark when it is drained', () => {
    const both = clusterWith(2, 30, 'ab', { ...limits, movesPerHourMax: 1 });
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 1, 30_000, 'one has moved');
    assert.ok(isMarked(both, 'c'));
    assert.ok(drain(both, 'c').ok);
    both.cluster.until(() => !isMarked(both, 'c') && both.cluster.node('c').mode === 'drained', 10_000, 'drained');
    both.cluster.run(7_200_000);
    assert.equal(both.placer.owned('c'), 0);
  });

  test('loses its mark when it already has its share', () => {
    const both = clusterWith(3, 12, 'abc', limits);
    const key = clusterKey({ kind: 'spread', node: both.cluster.node('b').id });
    const then = [{ kind: 'put', key, value: new Uint8Array() }] as const;
    both.cluster.registry.transact({ compare: [], then, otherwise: [] }, {}, () => {});
    both.cluster.run(1_000);
    const { entries } = rangeOf(both, key);
    assert.deepEqual(entries, []);
    assert.equal(both.placer.moves.length, 0);
  });
});
