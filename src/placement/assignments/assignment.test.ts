import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AssignmentTestCluster, settled } from '../../../test/support/placement/assignment-cluster.ts';
import type { Outcome } from '../../base/errors.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import type { DrainRequest, Pending } from '../operations/node-operations.ts';
import type { RebalanceResult } from '../balance/rebalancer.ts';

function drain(cluster: AssignmentTestCluster, name: string, request: DrainRequest = {}): Outcome<DrainProgress> {
  return cluster.ask((done) => cluster.operations.drain(cluster.node(name).id, request, done));
}

function progress(cluster: AssignmentTestCluster, name: string): DrainProgress {
  const outcome = cluster.ask<DrainProgress>((done) => cluster.operations.drainProgress(cluster.node(name).id, done));
  assert.ok(outcome.ok);
  return outcome.value;
}

function rebalance(
  cluster: AssignmentTestCluster,
  request: { dryRun?: boolean; movesMax?: number },
): Outcome<RebalanceResult> {
  const leader = cluster.nodes.find((node) => node.leadership.isLeading()) ?? cluster.node('a');
  return cluster.ask((done) => leader.assigner.rebalance(request, done));
}

describe('assigning', () => {
  test('DA-4: 12 assignments on 3 nodes are balanced, and the report counts 12', () => {
    const cluster = settled(3, 12);
    const report = cluster.balance();
    assert.ok(report.variation < 0.3);
    assert.equal(report.balanced, true);
    assert.equal(report.assignments, 12);
    assert.equal(report.unassigned, 0);
    assert.deepEqual(
      report.nodes.map((node) => node.assignments),
      [4, 4, 4],
    );
  });

  test('hint respected: the preferred node gets it, although others are freer', () => {
    const cluster = settled(3, 0);
    cluster.create(5, { preferred: cluster.node('b').id });
    cluster.until(() => cluster.countOn('b') === 5, 5_000, 'five on b');
  });

  test('hint inactive: somebody else gets it', () => {
    const cluster = settled(3, 0);
    cluster.node('b').setMode('drained', 'admin_drain');
    cluster.run(100);
    cluster.create(4, { preferred: cluster.node('b').id });
    cluster.until(() => cluster.isSettled(), 5_000, 'settled');
    assert.equal(cluster.countOn('b'), 0);
  });

  test('waits while no node is active, and goes on when one is', () => {
    const cluster = new AssignmentTestCluster();
    cluster.add(2, 'drained');
    cluster.lead('a');
    cluster.create(3);
    cluster.run(5_000);
    assert.deepEqual([...cluster.places().values()], ['-', '-', '-']);
    assert.equal(cluster.balance().unassigned, 3);
    const pending = cluster.ask<Pending>((done) => cluster.operations.pending(done));
    assert.ok(pending.ok);
    assert.deepEqual([pending.value.total, pending.value.shown[0]?.why], [3, 'no node is active']);
    cluster.node('b').setMode('active', 'admin_activate');
    cluster.until(() => cluster.isSettled(), 5_000, 'settled on b');
  });

  test('what a lost node held is taken back after its lease and given to others', () => {
    const cluster = settled(3, 12);
    cluster.node('b').kill();
    cluster.run(2_000);
    assert.equal(cluster.countOn('b'), 4, 'not before its lease is over');
    cluster.until(() => cluster.isSettled(), 5_000, 'settled on a and c');
    assert.equal(cluster.countOn('a') + cluster.countOn('c'), 12);
  });

  test('DA-3, as far as without processes: the leader itself is lost, the next one resumes', () => {
    const cluster = settled(2, 6);
    cluster.create(3);
    cluster.node('a').kill();
    cluster.lead('b');
    cluster.until(() => cluster.isSettled(), 8_000, 'all on b');
    assert.equal(cluster.countOn('b'), 9);
  });

  test('a restart before the lease is over keeps everything where it was', () => {
    const cluster = settled(3, 12);
    const before = [...cluster.places()];
    cluster.node('b').kill();
    cluster.run(500);
    cluster.node('b').start('active', 'fast_restart');
    cluster.until(() => cluster.isSettled(), 3_000, 'b serves again');
    assert.deepEqual([...cluster.places()], before);
  });

  test('a node that was cut off too long comes back drained and gets nothing until it is activated', () => {
    const cluster = settled(3, 12);
    cluster.node('b').cut();
    cluster.run(8_000);
    assert.equal(cluster.countOn('b'), 0);
    cluster.node('b').heal();
    cluster.until(() => cluster.node('b').mode === 'drained', 3_000, 'drained');
    cluster.create(6);
    cluster.until(() => cluster.places().size === 18 && cluster.isSettled(), 5_000, 'settled');
    assert.equal(cluster.countOn('b'), 0);
  });

  test('what is settled stays so: nothing is taken twice, moved or written', () => {
    const cluster = settled(3, 12);
    const before = [cluster.revisionsChecked, ...cluster.nodes.map((node) => node.taken.length)];
    cluster.run(200_000);
    assert.deepEqual([cluster.revisionsChecked, ...cluster.nodes.map((node) => node.taken.length)], before);
  });

  test('a host that hangs gives it to another node, after a release', () => {
    const cluster = settled(2, 0);
    const released: string[] = [];
    cluster.node('a').takes = () => {};
    cluster.node('a').releases = ({ container }, done) => {
      released.push(container);
      done({ ok: true, value: undefined });
    };
    cluster.create(2);
    cluster.until(() => cluster.places().size === 2 && cluster.countOn('b') === 2, 60_000, 'both on b');
    cluster.until(() => cluster.isSettled(), 1_000, 'b serves them');
    assert.ok(released.length > 0);
  });

  test('a drained node that finds an assignment bounces it', () => {
    const cluster = settled(2, 4);
    cluster.node('b').setMode('drained', 'registration_expired');
    cluster.until(() => cluster.countOn('a') === 4 && cluster.isSettled(), 3_000, 'all on a');
  });

  test('a host that cannot take gives it to another node', () => {
    const cluster = settled(2, 0);
    cluster.node('a').takes = (_, done) => done({ ok: false, error: new Error('no') as never });
    cluster.create(4);
    cluster.until(() => cluster.places().size === 4 && cluster.countOn('b') === 4, 20_000, 'all on b');
    cluster.until(() => cluster.isSettled(), 1_000, 'b serves them');
  });

  test('a leader that was superseded is refused, also when it has not heard of it', () => {
    const cluster = settled(3, 6);
    cluster.node('a').cut();
    cluster.lead('b', 'does not know');
    cluster.run(200);
    cluster.create(6);
    cluster.run(200);
    cluster.node('a').heal();
    cluster.until(() => cluster.node('a').assigner.phase === 'superseded', 5_000, 'a sees the fence of b');
    cluster.until(() => cluster.isSettled(), 5_000, 'settled');
    assert.equal(cluster.node('b').assigner.phase, 'leading');
  });
});

describe('draining', () => {
  test('DA-6: a drained node is empty in 30 s; activated, the automatic rebalance gives it its share in 60 s', () => {
    const automatic = { mode: 'automatic', intervalMs: 5_000, cooldownMs: 1_000, variationMax: 0.2 } as const;
    const cluster = settled(3, 12, { rebalance: automatic });
    assert.ok(drain(cluster, 'b').ok);
    cluster.until(() => cluster.node('b').mode === 'drained', 30_000, 'b is drained');
    assert.equal(cluster.countOn('b'), 0);
    cluster.until(() => cluster.isSettled(), 1_000, 'all served by the others');
    cluster.node('b').setMode('active', 'admin_activate');
    cluster.until(() => cluster.countOn('b') > 0 && cluster.balance().variation < 0.25, 60_000, 'b has its share');
    assert.equal(cluster.balance().assignments, 12);
  });

  test('moves as many at a time as allowed: the others stay with their owner', () => {
    const cluster = settled(3, 12, { delayMsMax: 200 });
    drain(cluster, 'b', { parallelMax: 1 });
    let onTheWay = 0;
    const look = (): boolean => {
      const { releasing, adrift } = progress(cluster, 'b');
      onTheWay = Math.max(onTheWay, releasing + adrift);
      return cluster.node('b').mode === 'drained';
    };
    cluster.until(look, 30_000, 'drained');
    assert.equal(onTheWay, 1);
  });

  test('the mark waits for the release: nobody takes it before', () => {
    const cluster = settled(2, 2);
    let release: (() => void) | undefined;
    cluster.node('b').releases = (_, done) => {
      release = () => done({ ok: true, value: undefined });
    };
    drain(cluster, 'b');
    cluster.run(10_000);
    assert.equal(cluster.countOn('b'), 1, 'b is still the owner');
    assert.match(progress(cluster, 'b').blockedBy.join(), /node b has not released p\/\d yet/);
    cluster.serving.clear();
    release?.();
    cluster.until(() => cluster.countOn('a') === 2, 5_000, 'a has both');
  });

  test('goes on under another leader, and nobody has to look', () => {
    const cluster = settled(3, 30, { delayMsMax: 100 });
    drain(cluster, 'c', { parallelMax: 1 });
    cluster.run(300);
    assert.ok(cluster.countOn('c') > 2, 'under way');
    cluster.node('a').kill();
    cluster.lead('b');
    cluster.until(() => cluster.node('c').mode === 'drained' && cluster.countOn('b') === 30, 30_000, 'drained');
  });

  test('refused while nobody else is active, with the reason', () => {
    const cluster = settled(2, 4);
    cluster.node('a').setMode('drained', 'admin_drain');
    cluster.until(() => cluster.countOn('b') === 4, 3_000, 'all on b');
    const outcome = drain(cluster, 'b');
    assert.ok(!outcome.ok);
    assert.equal(outcome.error.code, 'PRECONDITION');
    assert.match(outcome.error.message, /no other node is active, so nobody could take what node b holds \(4\)/);
  });

  test('the deadline passes: what is left stays served, and the progress says so', () => {
    const cluster = settled(2, 4);
    cluster.node('b').releases = () => {};
    drain(cluster, 'b', { deadlineMs: 2_000 });
    cluster.until(() => progress(cluster, 'b').overdue, 3_000, 'overdue');
    assert.equal(cluster.countOn('b'), 2);
    assert.equal(cluster.serving.size, 4);
  });

  test('a draining node that is lost is drained all the same', () => {
    const cluster = settled(3, 12, { delayMsMax: 100 });
    drain(cluster, 'c');
    cluster.run(100);
    cluster.node('c').kill();
    cluster.until(() => cluster.node('c').mode === 'drained' && cluster.isSettled(), 10_000, 'drained');
  });

  test('asking twice is asking once', () => {
    const cluster = settled(3, 6);
    assert.ok(drain(cluster, 'b').ok);
    assert.ok(drain(cluster, 'b').ok);
    cluster.until(() => cluster.node('b').mode === 'drained', 5_000, 'drained');
    const again = drain(cluster, 'b');
    assert.ok(again.ok && again.value.phase === 'drained');
  });
});

describe('rebalancing', () => {
  /** Two nodes with six each, and a third that came later. */
  function uneven(options: ConstructorParameters<typeof AssignmentTestCluster>[0] = {}): AssignmentTestCluster {
    const cluster = settled(2, 12, options);
    cluster.add(1);
    return cluster;
  }

  test('DA-5: a dry run moves nothing, and neither does a balanced cluster', () => {
    const cluster = uneven();
    const before = [...cluster.places()];
    const dry = rebalance(cluster, { dryRun: true });
    assert.ok(dry.ok && dry.value.moves.length > 0 && dry.value.started === 0);
    cluster.run(5_000);
    assert.deepEqual([...cluster.places()], before);

    const balanced = settled(3, 12);
    const places = [...balanced.places()];
    const result = rebalance(balanced, { movesMax: 4 });
    assert.ok(result.ok && result.value.moves.length === 0 && result.value.why === 'balanced');
    balanced.run(5_000);
    assert.deepEqual([...balanced.places()], places);
  });

  test('by hand: answers with the plan and what has begun, and the moves end', () => {
    const cluster = uneven();
    const result = rebalance(cluster, { movesMax: 4 });
    assert.ok(result.ok);
    const { moves, started, failed } = result.value;
    assert.deepEqual([started, failed], [moves.length, []]);
    cluster.until(() => cluster.countOn('c') === moves.length && cluster.isSettled(), 3_000, 'moved');
    assert.ok(cluster.balance().balanced);
  });

  test('refused with one active node, when it is off, and elsewhere than on the leader', () => {
    const alone = settled(1, 3);
    const refused = rebalance(alone, {});
    assert.ok(!refused.ok && refused.error.code === 'PRECONDITION' && /at least 2/.test(refused.error.message));
    const off = rebalance(uneven({ rebalance: { mode: 'off' } }), {});
    assert.ok(!off.ok && off.error.code === 'PRECONDITION');
    const cluster = settled(2, 3);
    const elsewhere = cluster.ask<RebalanceResult>((done) => cluster.node('b').assigner.rebalance({}, done));
    assert.ok(!elsewhere.ok && elsewhere.error.code === 'NOT_LEADER');
    const wrong = rebalance(cluster, { movesMax: 0 });
    assert.ok(!wrong.ok && wrong.error.code === 'BAD_ARGUMENT');
  });

  test('by itself: one move per cycle, and off by default', () => {
    const still = uneven();
    still.run(700_000);
    assert.equal(still.countOn('c'), 0);
    const cluster = uneven({ rebalance: { mode: 'automatic', intervalMs: 5_000, cooldownMs: 0, variationMax: 0.1 } });
    for (let moved = 1; moved <= 4; moved++) {
      const takenMs = cluster.until(() => cluster.countOn('c') === moved, 6_000, `${moved} moved`);
      assert.ok(moved === 1 || takenMs > 4_000, `move ${moved} came after ${takenMs} ms`);
    }
    cluster.run(30_000);
    assert.deepEqual([cluster.countOn('a'), cluster.countOn('b'), cluster.countOn('c')], [4, 4, 4]);
  });

  test('no more moves in an hour than allowed', () => {
    const automatic = {
      mode: 'automatic',
      intervalMs: 1_000,
      cooldownMs: 0,
      variationMax: 0,
      movesPerHourMax: 2,
    } as const;
    const cluster = uneven({ rebalance: automatic });
    cluster.run(600_000);
    assert.equal(cluster.countOn('c'), 2);
  });

  test('a source that does not release keeps what it has', () => {
    const cluster = uneven({ assigner: { releaseTimeoutMs: 2_000 } });
    const waits: (() => void)[] = [];
    for (const name of ['a', 'b'])
      cluster.node(name).releases = (_, done) => waits.push(() => done({ ok: true, value: undefined }));
    const result = rebalance(cluster, { movesMax: 1 });
    assert.ok(result.ok && result.value.started === 1);
    cluster.run(4_000);
    assert.equal(cluster.countOn('c'), 0);
    for (const name of ['a', 'b']) cluster.node(name).releases = undefined;
    cluster.serving.delete(result.value.moves[0]?.name ?? '');
    for (const wait of waits) wait();
    cluster.until(() => cluster.isSettled(), 2_000, 'served again by its source');
    assert.equal(cluster.countOn('c'), 0);
  });
});
