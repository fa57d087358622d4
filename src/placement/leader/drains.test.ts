import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type AssignmentTestCluster, settled } from '../../../test/support/placement/assignment-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import type { Outcome } from '../../base/errors.ts';
import { type RangeResult, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import type { Pending } from '../operations/node-operations.ts';
import type { RebalanceOptions } from '../balance/rebalance-options.ts';
import type { RebalanceResult } from '../balance/rebalancer.ts';

type Both = { readonly cluster: AssignmentTestCluster; readonly placer: FakePlacer };

/** Nodes a, b, c ..., of which a leads, and containers that are open on those that are named. */
function clusterWith(nodes: number, containers: number, owners: string, options: Partial<RebalanceOptions> = {}): Both {
  const cluster = settled(nodes, 0, { rebalance: { mode: 'off', ...options } });
  const placer = new FakePlacer(cluster, 2);
  placer.create(containers, owners);
  return { cluster, placer };
}

function drain({ cluster }: Both, name: string, parallelMax = 1): Outcome<DrainProgress> {
  const request = { deadlineMs: 60_000, parallelMax };
  return cluster.ask((done) => cluster.operations.drain(cluster.node(name).id, request, done));
}

function progress({ cluster }: Both, name: string): DrainProgress {
  const outcome = cluster.ask<DrainProgress>((done) => cluster.operations.drainProgress(cluster.node(name).id, done));
  assert.ok(outcome.ok);
  return outcome.value;
}

function preflight({ cluster }: Both, name: string): string {
  const outcome = cluster.ask<readonly string[]>((done) =>
    cluster.operations.drainPreflight(cluster.node(name).id, done),
  );
  assert.ok(outcome.ok);
  return outcome.value.join('; ');
}

function rebalance({ cluster }: Both, request: { dryRun?: boolean; movesMax?: number }): Outcome<RebalanceResult> {
  const leader = cluster.nodes.find((node) => node.leadership.isLeading()) ?? cluster.node('a');
  return cluster.ask((done) => leader.assigner.rebalance(request, done));
}

function counts({ placer }: Both, names: string): readonly number[] {
  return names.split('').map((name) => placer.owned(name));
}

function rangeOf({ cluster }: Both, key: string): RangeResult {
  const found = cluster.ask<RangeResult>((done) => cluster.registry.range(onlyKey(key), {}, done));
  assert.ok(found.ok);
  return found.value;
}

describe('the load of containers', () => {
  test('owned ones count beside assignments, copies are only told', () => {
    const { cluster } = clusterWith(3, 12, 'abc');
    cluster.create(3, { preferred: cluster.node('a').id });
    cluster.until(() => cluster.countOn('a') === 3, 1_000, 'three on a');
    const report = cluster.balance();
    assert.deepEqual([report.assignments, report.containers, report.maxLoad, report.minLoad], [3, 12, 7, 4]);
    assert.deepEqual(
      report.nodes.map(({ assignments, containers, copies, load }) => [assignments, containers, copies, load]),
      [
        [3, 4, 4, 7],
        [0, 4, 4, 4],
        [0, 4, 4, 4],
      ],
    );
  });

  test('what waits for an owner is counted and listed, with its note', () => {
    const { cluster, placer } = clusterWith(3, 3, 'abc');
    placer.change('1', { owner: undefined, note: 'nobody with its state is alive' });
    assert.equal(cluster.balance().unassigned, 1);
    const pending = cluster.ask<Pending>((done) => cluster.operations.pending(done));
    assert.ok(pending.ok);
    assert.deepEqual(pending.value.shown, [
      { name: 'q/1', reason: 'lost', attempts: 0, why: 'nobody with its state is alive' },
    ]);
  });

  test('new assignments go to whoever owns fewer containers', () => {
    const { cluster } = clusterWith(3, 6, 'ab');
    cluster.create(3);
    cluster.until(() => cluster.countOn('c') === 3, 2_000, 'all on c');
  });

  test('a new view after a compaction is the same as one that was followed', () => {
    const both = clusterWith(3, 12, 'abc');
    drain(both, 'b', 4);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
    const followed = both.cluster.node('a').assigner.view;
    assert.ok(followed);
    const shown = [...followed.nodes.values()].map(({ name, owned, copied, weight, leaving }) => {
      return [name, owned.size, copied.size, weight, leaving];
    });
    const fresh = both.cluster.balance().nodes.map(({ name, containers, copies }) => {
      return [name, containers, copies, containers, 0];
    });
    assert.deepEqual(new Set(shown.map(String)), new Set(fresh.map(String)));
    assert.equal(followed.moving.size, 0);
  });
});

describe('draining a node with containers', () => {
  test('moves what it owns, waits for its copies, and is drained only then', () => {
    const both = clusterWith(3, 12, 'abc');
    const { cluster, placer } = both;
    placer.replacesCopies = false;
    const begun = drain(both, 'b');
    assert.ok(begun.ok && begun.value.total === 8, 'four containers and four copies');
    cluster.until(() => placer.owned('b') === 0, 20_000, 'b owns nothing');
    assert.ok(placer.moves.every(({ cause, from }) => cause === 'drain' && from === cluster.node('b').id));
    assert.equal(placer.moves.length, 4);
    cluster.run(5_000);
    const { phase, containers, copies, remaining } = progress(both, 'b');
    assert.deepEqual([phase, containers, copies, remaining], ['draining', 0, placer.kept('b'), placer.kept('b')]);
    assert.ok(copies > 0);
    assert.match(progress(both, 'b').blockedBy.join(), /the state of q\/.* has not been copied to another node yet/);
    placer.repair();
    cluster.until(() => cluster.node('b').mode === 'drained', 2_000, 'b is drained');
    assert.deepEqual(progress(both, 'b').remaining, 0);
    assert.deepEqual([placer.kept('a'), placer.kept('c')], [12, 12]);
  });

  test('a copy that leaves as the last thing ends the drain; a copy that stays does not', () => {
    const both = clusterWith(4, 1, 'ab');
    both.placer.replacesCopies = false;
    drain(both, 'b');
    both.cluster.run(10_000);
    assert.equal(both.cluster.node('b').mode, 'draining');
    assert.deepEqual(progress(both, 'b').copies, 1);
    both.placer.repair();
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 1_000, 'drained');
    assert.equal(both.placer.moves.length, 0, 'it owned nothing');
  });

  test('at most so many at a time as were asked for', () => {
    for (const parallelMax of [1, 3]) {
      const both = clusterWith(3, 18, 'abc');
      drain(both, 'b', parallelMax);
      both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
      assert.equal(both.placer.movingMost, parallelMax);
    }
  });

  test('what has an owner in sync elsewhere goes there; the load stays even', () => {
    const both = clusterWith(3, 18, 'abc');
    drain(both, 'b', 2);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
    const [a = 0, c = 0] = counts(both, 'ac');
    assert.equal(a + c, 18);
    assert.ok(Math.abs(a - c) <= 6, `${a} and ${c}`);
  });

  test('what is not open waits until it is; the progress says so', () => {
    const both = clusterWith(3, 6, 'abc');
    both.placer.change('1', { phase: 'opening' });
    drain(both, 'b', 4);
    both.cluster.run(5_000);
    assert.equal(both.placer.owned('b'), 1);
    assert.match(progress(both, 'b').blockedBy.join(), /node b has not opened q\/1 yet/);
    both.placer.change('1', { phase: 'serving' });
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 5_000, 'drained');
  });

  test('the progress tells what is on the way', () => {
    const both = clusterWith(3, 6, 'abc');
    both.placer.moveMs = undefined;
    drain(both, 'b');
    both.cluster.run(1_000);
    const { blockedBy, releasing } = progress(both, 'b');
    assert.match(blockedBy.join(), /on the way: q\/1 to [ac] \(copying\)/);
    assert.equal(releasing, 1);
  });

  test('a move that was given up is begun again, but not at once', () => {
    const both = clusterWith(3, 3, 'abc');
    both.placer.moveMs = undefined;
    drain(both, 'b');
    for (const round of [1, 2, 3]) {
      both.cluster.until(() => both.placer.record('1').move !== undefined, 6_000, `move ${round}`);
      both.placer.change('1', { move: undefined, note: 'the move to b was cancelled: its serving lease is over' });
    }
    const times = both.placer.moves.map(({ atMs }) => atMs);
    assert.equal(times.length, 3);
    assert.ok(times.every((atMs, index) => index === 0 || atMs - (times[index - 1] as number) >= 5_000));
  });

  test('goes on under another leader, which does not begin twice', () => {
    const both = clusterWith(4, 24, 'abcd');
    const { cluster, placer } = both;
    drain(both, 'c');
    cluster.run(60);
    assert.ok(placer.owned('c') > 1 && placer.moves.length > 0, 'under way');
    cluster.lead('b');
    cluster.until(() => cluster.node('c').mode === 'drained', 30_000, 'drained');
    assert.equal(new Set(placer.moves.map(({ container }) => container)).size, placer.moves.length);
  });

  test('with too few workers for all copies it is possible, and warns', () => {
    const two = clusterWith(2, 4, 'ab');
    const warning = 'without node b there are too few workers for as many copies as wanted of q/1, q/3, q/0, q/2';
    assert.deepEqual(progress(two, 'b').warnings, [warning]);
    assert.equal(preflight(two, 'b'), '');
    assert.deepEqual(progress(clusterWith(3, 4, 'abc'), 'b').warnings, []);
  });

  test('is refused when nobody else is active', () => {
    const three = clusterWith(3, 4, 'abc');
    assert.equal(preflight(three, 'b'), '');
    three.cluster.node('a').setMode('drained', 'admin_drain');
    three.cluster.node('c').setMode('drained', 'admin_drain');
    three.placer.replacesCopies = false;
    three.cluster.run(100);
    assert.match(preflight(three, 'b'), /no other node is active, so nobody could take what node b holds \(\d\)/);
    const outcome = drain(three, 'b');
    assert.ok(!outcome.ok && outcome.error.code === 'PRECONDITION');
  });

  test('assignments and containers leave together', () => {
    const both = clusterWith(3, 6, 'abc');
    both.cluster.create(6);
    both.cluster.until(() => both.cluster.places().size === 6 && both.cluster.isSettled(), 2_000, 'settled');
    drain(both, 'b', 2);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 10_000, 'drained');
    assert.deepEqual([both.cluster.countOn('b'), both.placer.owned('b'), both.placer.kept('b')], [0, 0, 0]);
  });
});

describe('evening out containers', () => {
  const manual = { mode: 'manual', blacklist: ['q/*'], cooldownMs: 0 } as const;

  test('by hand: the plan names them, and they move with the cause rebalance', () => {
    const both = clusterWith(3, 12, 'ab', { ...manual, blacklist: [], movesPerHourMax: 0 });
    const dry = rebalance(both, { dryRun: true, movesMax: 4 });
    assert.ok(dry.ok && dry.value.moves.every(({ kind, name }) => kind === 'container' && name.startsWith('q/')));
    assert.equal(both.placer.moves.length, 0);
    const result = rebalance(both, { movesMax: 4 });
    assert.ok(result.ok);
    assert.deepEqual([result.value.started, result.value.failed], [result.value.moves.length, []]);
    both.cluster.until(() => both.placer.owned('c') === result.value.moves.length, 3_000, 'moved');
    assert.ok(both.placer.moves.every(({ cause }) => cause === 'rebalance'));
    assert.ok(both.cluster.balance().balanced);
  });

  test('what moves, opens or waits is left alone', () => {
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

  test('the blacklist holds for containers, too', () => {
    const both = clusterWith(3, 12, 'ab', manual);
    const plan = rebalance(both, { dryRun: true });
    assert.ok(plan.ok && plan.value.moves.length === 0);
  });

  test('by itself: one per cycle', () => {
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

describe('spreading to newcomers', () => {
  const limits = { mode: 'manual', cooldownMs: 0, movesPerHourMax: 100, variationMax: 0.1 } as const;

  function isMarked({ cluster }: Both, name: string): boolean {
    const { id } = cluster.node(name);
    return cluster.node('a').assigner.view?.nodes.get(id)?.spread !== undefined;
  }

  test('a worker that joins gets its share by itself, one after the other, also with manual', () => {
    const both = clusterWith(2, 12, 'ab', limits);
    both.cluster.run(60_000);
    assert.equal(both.placer.moves.length, 0, 'nothing moves without a newcomer');
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 4, 30_000, 'c has its share');
    assert.ok(both.placer.moves.every(({ cause, to }) => cause === 'spread' && to === both.cluster.node('c').id));
    assert.equal(both.placer.movingMost, 1);
    both.cluster.until(() => !isMarked(both, 'c'), 5_000, 'the mark is gone');
    both.cluster.run(600_000);
    assert.deepEqual(counts(both, 'abc'), [4, 4, 4]);
    assert.equal(both.placer.moves.length, 4, 'and no more');
  });

  test('nothing moves with off, and nothing that a move would not help', () => {
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

  test('a node that was emptied and is activated again is a newcomer', () => {
    const both = clusterWith(3, 12, 'abc', limits);
    drain(both, 'c', 4);
    both.cluster.until(() => both.cluster.node('c').mode === 'drained', 10_000, 'drained');
    const before = both.placer.moves.length;
    both.cluster.node('c').setMode('active', 'admin_activate');
    both.cluster.until(() => both.placer.owned('c') === 4, 30_000, 'c has its share');
    assert.ok(both.placer.moves.slice(before).every(({ cause }) => cause === 'spread'));
  });

  test('the next leader goes on with it', () => {
    const both = clusterWith(2, 30, 'ab', limits);
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 3, 30_000, 'three have moved');
    both.cluster.lead('b');
    both.cluster.until(() => both.placer.owned('c') >= 9 && both.cluster.balance().balanced, 60_000, 'even');
  });

  test('keeps the moves of an hour, and does not wait for the cooldown of what has just been created', () => {
    const both = clusterWith(2, 30, 'ab', { ...limits, movesPerHourMax: 3, cooldownMs: 60_000 });
    both.cluster.add(1);
    both.cluster.run(30_000);
    assert.equal(both.placer.moves.length, 3);
    both.cluster.run(3_600_000);
    assert.equal(both.placer.moves.length, 6);
  });

  test('a newcomer that is drained or lost is none any more', () => {
    const both = clusterWith(2, 30, 'ab', { ...limits, movesPerHourMax: 1 });
    both.cluster.add(1);
    both.cluster.until(() => both.placer.owned('c') === 1, 30_000, 'one has moved');
    assert.ok(isMarked(both, 'c'));
    assert.ok(drain(both, 'c').ok);
    both.cluster.until(() => !isMarked(both, 'c') && both.cluster.node('c').mode === 'drained', 10_000, 'drained');
    both.cluster.run(7_200_000);
    assert.equal(both.placer.owned('c'), 0);
  });

  test('a mark that nobody needs is taken away', () => {
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
