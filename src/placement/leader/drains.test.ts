import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type DrainTestCluster, startedCluster } from '../../../test/support/placement/drain-cluster.ts';
import { FakePlacer } from '../../../test/fakes/fake-placer.ts';
import type { Outcome } from '../../base/errors.ts';
import { type RangeResult, onlyKey } from '../../base/registry.ts';
import { readNodeState } from '../../registration/registration-records.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import type { DrainProgress } from '../operations/drain-progress.ts';
import type { RebalanceOptions } from '../balance/rebalance-options.ts';

type Both = { readonly cluster: DrainTestCluster; readonly placer: FakePlacer };

/** Nodes a, b, c ..., of which a leads, and served containers on the nodes in `owners`. */
function clusterWith(nodes: number, containers: number, owners: string, options: Partial<RebalanceOptions> = {}): Both {
  const cluster = startedCluster(nodes, { mode: 'off', ...options });
  const placer = new FakePlacer(cluster, 2);
  placer.create(containers, owners);
  return { cluster, placer };
}

function drain({ cluster }: Both, name: string, parallelMax = 1, deadlineMs = 60_000): Outcome<DrainProgress> {
  const request = { deadlineMs, parallelMax };
  return cluster.await((done) => cluster.operations.drain(cluster.node(name).id, request, done));
}

function progress({ cluster }: Both, name: string): DrainProgress {
  const outcome = cluster.await<DrainProgress>((done) => cluster.operations.drainProgress(cluster.node(name).id, done));
  assert.ok(outcome.ok);
  return outcome.value;
}

function preflight({ cluster }: Both, name: string): string {
  const outcome = cluster.await<readonly string[]>((done) =>
    cluster.operations.drainPreflight(cluster.node(name).id, done),
  );
  assert.ok(outcome.ok);
  return outcome.value.join('; ');
}

function counts({ placer }: Both, names: string): readonly number[] {
  return names.split('').map((name) => placer.owned(name));
}

describe('the balance report', () => {
  test('counts owned containers as load, and no replicas', () => {
    const { cluster } = clusterWith(3, 9, 'abc');
    new FakePlacer(cluster, 1, 'r').create(3, 'a');
    const report = cluster.balance();
    assert.deepEqual([report.containers, report.maxLoad, report.minLoad], [12, 6, 3]);
    assert.deepEqual(
      report.nodes.map(({ containers, copies, load }) => [containers, copies, load]),
      [
        [6, 3, 6],
        [3, 3, 3],
        [3, 3, 3],
      ],
    );
  });

  test('counts containers without an owner', () => {
    const { cluster, placer } = clusterWith(3, 3, 'abc');
    placer.change('1', { owner: undefined, note: 'no replica with its state is available' });
    assert.equal(cluster.balance().unassigned, 1);
  });

  test('is the same from a newly loaded view as from a watched one', () => {
    const both = clusterWith(3, 12, 'abc');
    drain(both, 'b', 4);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
    const watched = both.cluster.node('a').assigner.view;
    assert.ok(watched);
    const shown = [...watched.nodes.values()].map(({ name, owned, replicated, leaving }) => {
      return [name, owned.size, replicated.size, leaving];
    });
    const loaded = both.cluster.balance().nodes.map(({ name, containers, copies }) => {
      return [name, containers, copies, 0];
    });
    assert.deepEqual(new Set(shown.map(String)), new Set(loaded.map(String)));
    assert.equal(watched.moving.size, 0);
  });
});

describe('a drain', () => {
  test('moves the owned containers, waits until the replicas are replaced, and only then ends', () => {
    const both = clusterWith(3, 12, 'abc');
    const { cluster, placer } = both;
    placer.replacesReplicas = false;
    const started = drain(both, 'b');
    assert.ok(started.ok && started.value.total === 8, 'four containers and four replicas');
    cluster.until(() => placer.owned('b') === 0, 20_000, 'b owns nothing');
    assert.ok(placer.moves.every(({ cause, from }) => cause === 'drain' && from === cluster.node('b').id));
    assert.equal(placer.moves.length, 4);
    cluster.run(5_000);
    const { phase, containers, copies, remaining } = progress(both, 'b');
    assert.deepEqual([phase, containers, copies, remaining], ['draining', 0, placer.held('b'), placer.held('b')]);
    assert.ok(copies > 0);
    assert.match(progress(both, 'b').blockedBy.join(), /the state of q\/.* has not been copied to another node yet/);
    placer.repair();
    cluster.until(() => cluster.node('b').mode === 'drained', 2_000, 'b is drained');
    assert.deepEqual(progress(both, 'b').remaining, 0);
    assert.deepEqual([placer.held('a'), placer.held('c')], [12, 12]);
  });

  test('ends only when the last replica has left the node', () => {
    const both = clusterWith(4, 1, 'ab');
    both.placer.replacesReplicas = false;
    drain(both, 'b');
    both.cluster.run(10_000);
    assert.equal(both.cluster.node('b').mode, 'draining');
    assert.deepEqual(progress(both, 'b').copies, 1);
    both.placer.repair();
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 1_000, 'drained');
    assert.equal(both.placer.moves.length, 0, 'it owned nothing');
  });

  test('moves at most `parallelMax` containers at a time', () => {
    for (const parallelMax of [1, 3]) {
      const both = clusterWith(3, 18, 'abc');
      drain(both, 'b', parallelMax);
      both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
      assert.equal(both.placer.movingMost, parallelMax);
    }
  });

  test('moves a container to a replica in sync and keeps the load even', () => {
    const both = clusterWith(3, 18, 'abc');
    drain(both, 'b', 2);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 20_000, 'drained');
    const [a = 0, c = 0] = counts(both, 'ac');
    assert.equal(a + c, 18);
    assert.ok(Math.abs(a - c) <= 6, `${a} and ${c}`);
  });

  test('waits for a container that is not open yet, and its progress says so', () => {
    const both = clusterWith(3, 6, 'abc');
    both.placer.change('1', { phase: 'opening' });
    drain(both, 'b', 4);
    both.cluster.run(5_000);
    assert.equal(both.placer.owned('b'), 1);
    assert.match(progress(both, 'b').blockedBy.join(), /node b has not opened q\/1 yet/);
    both.placer.change('1', { phase: 'serving' });
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 5_000, 'drained');
  });

  test('shows the moves under way in its progress', () => {
    const both = clusterWith(3, 6, 'abc');
    both.placer.moveMs = undefined;
    drain(both, 'b');
    both.cluster.run(1_000);
    const { blockedBy, releasing } = progress(both, 'b');
    assert.match(blockedBy.join(), /moving: q\/1 to [ac] \(copying its state\)/);
    assert.equal(releasing, 1);
  });

  test('retries a cancelled move after a delay', () => {
    const both = clusterWith(3, 3, 'abc');
    both.placer.moveMs = undefined;
    drain(both, 'b');
    for (const round of [1, 2, 3]) {
      both.cluster.until(() => both.placer.record('1').move !== undefined, 6_000, `move ${round}`);
      both.placer.change('1', { move: undefined, note: 'the move to b was cancelled: its serving lease has expired' });
    }
    const times = both.placer.moves.map(({ atMs }) => atMs);
    assert.equal(times.length, 3);
    assert.ok(times.every((atMs, index) => index === 0 || atMs - (times[index - 1] as number) >= 5_000));
  });

  test('continues under another leader, which does not start a move twice', () => {
    const both = clusterWith(4, 24, 'abcd');
    const { cluster, placer } = both;
    drain(both, 'c');
    cluster.run(60);
    assert.ok(placer.owned('c') > 1 && placer.moves.length > 0, 'under way');
    cluster.lead('b');
    cluster.until(() => cluster.node('c').mode === 'drained', 30_000, 'drained');
    assert.equal(new Set(placer.moves.map(({ container }) => container)).size, placer.moves.length);
  });

  test('is allowed with too few workers for all replicas, with a warning', () => {
    const two = clusterWith(2, 4, 'ab');
    const warning = 'without node b there are too few workers for all copies of q/1, q/3, q/0, q/2';
    assert.deepEqual(progress(two, 'b').warnings, [warning]);
    assert.equal(preflight(two, 'b'), '');
    assert.deepEqual(progress(clusterWith(3, 4, 'abc'), 'b').warnings, []);
  });

  test('of a node that was drained for a late return is recorded with the note of the operator', () => {
    const both = clusterWith(2, 2, 'a');
    const { cluster } = both;
    const node = cluster.node('b');
    node.setMode('drained', 'stale_restart');
    cluster.run(50);
    const drained = cluster.await<unknown>((done) =>
      cluster.operations.drain(node.id, { note: 'the disk is broken' }, done),
    );
    assert.ok(drained.ok);
    const key = clusterKey({ kind: 'state', node: node.id });
    const found = cluster.await<RangeResult>((done) => cluster.registry.range(onlyKey(key), {}, done));
    assert.ok(found.ok);
    const state = readNodeState(found.value.entries[0]!.value);
    assert.deepEqual([state?.mode, state?.reason, state?.note], ['drained', 'admin_drain', 'the disk is broken']);
  });

  test('is refused when no other node is active', () => {
    const three = clusterWith(3, 4, 'abc');
    assert.equal(preflight(three, 'b'), '');
    three.cluster.node('a').setMode('drained', 'admin_drain');
    three.cluster.node('c').setMode('drained', 'admin_drain');
    three.placer.replacesReplicas = false;
    three.cluster.run(100);
    assert.match(preflight(three, 'b'), /no other node is active to take the \d containers and copies of node b/);
    const outcome = drain(three, 'b');
    assert.ok(!outcome.ok && outcome.error.code === 'PRECONDITION');
  });

  test('leaves the remaining containers served after its deadline, and its progress says overdue', () => {
    const both = clusterWith(2, 4, 'ab');
    both.placer.moveMs = undefined;
    drain(both, 'b', 1, 2_000);
    both.cluster.until(() => progress(both, 'b').overdue, 3_000, 'overdue');
    assert.deepEqual([both.placer.owned('b'), both.cluster.node('b').mode], [2, 'draining']);
  });

  test('is idempotent', () => {
    const both = clusterWith(3, 6, 'abc');
    assert.ok(drain(both, 'b').ok);
    assert.ok(drain(both, 'b').ok);
    both.cluster.until(() => both.cluster.node('b').mode === 'drained', 10_000, 'drained');
    const again = drain(both, 'b');
    assert.ok(again.ok && again.value.phase === 'drained');
  });

  test('refuses a superseded leader that does not know its successor', () => {
    const both = clusterWith(3, 6, 'abc');
    const { cluster } = both;
    cluster.node('a').registry.interrupt();
    cluster.lead('b', 'does not know');
    drain(both, 'c');
    cluster.node('a').registry.resume();
    cluster.until(() => cluster.node('a').assigner.phase === 'superseded', 5_000, 'a sees the fence of b');
    cluster.until(() => cluster.node('c').mode === 'drained', 10_000, 'drained');
    assert.equal(cluster.node('b').assigner.phase, 'leading');
  });
});
