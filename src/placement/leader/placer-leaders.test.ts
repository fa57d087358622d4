import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  PlacementTestCluster,
  placementLeaseMs,
  settledCluster,
} from '../../../test/support/placement/placement-cluster.ts';
import { success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { Random } from '../../base/random.ts';
import { placerDefaults } from './placer-types.ts';
import { Placer } from './placer.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';

function recovered(cluster: PlacementTestCluster): readonly string[] {
  return cluster.events
    .filter((event) => event.startsWith('container.recovered'))
    .map((event) => event.split(':')[0] ?? '');
}

describe('a change of leader', () => {
  test('node and leader die together: the next leader recovers what the node had, once', () => {
    const cluster = settledCluster(5, { containers: 20, copies: 3 });
    cluster.node('a').kill();
    cluster.node('b').kill();
    cluster.run(200);
    cluster.lead('c');
    cluster.until(() => cluster.isSettled(3), 40_000, 'settled again');
    assert.equal(new Set(recovered(cluster)).size, recovered(cluster).length, 'none twice');
  });

  test('leaves an isolated leader without effect, although it sees all nodes die', () => {
    const cluster = settledCluster(4, { containers: 8 });
    const a = cluster.node('a');
    a.cut();
    cluster.lead('b', 'does not know');
    const before = new Map(cluster.records);
    for (const { id, generation, name } of cluster.nodes) if (name !== 'a') a.placer?.nodeGone(id, generation);
    cluster.run(placementLeaseMs);
    for (const [fullName, { owner }] of before) {
      if (owner?.node !== a.id) assert.deepEqual(cluster.record(fullName).owner, owner, 'no owner has changed');
    }
    a.heal();
    cluster.run(100);
    for (const [fullName, { owner }] of before) {
      if (owner?.node !== a.id)
        assert.deepEqual(cluster.record(fullName).owner, owner, 'its transactions come too late');
    }
    assert.equal(a.placer?.phase, 'superseded');
    assert.equal(a.placer?.grantServingLease(a.id, a.generation).ok, false);
    cluster.settle(2);
  });

  test('a node gets no lease while the outcome of a takeover is unknown', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 2 });
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    const fullName = [...cluster.records.keys()].find((one) => cluster.ownerOf(one) === 'b') ?? '';
    b.pause();
    cluster.run(1_050);
    a.registry.interrupt('NETWORK_TIMEOUT', { takesEffect: true });
    cluster.run(300);
    assert.notEqual(cluster.ownerOf(fullName), 'b', 'the takeover has succeeded, and the leader does not know');
    const outcome = a.placer?.grantServingLease(b.id, b.generation);
    assert.ok(outcome?.ok === false && outcome.error.code === 'PRECONDITION');
    a.registry.resume();
    b.resume();
    cluster.run(6_000);
    const granted = a.placer?.grantServingLease(b.id, b.generation);
    assert.ok(granted?.ok === true);
    assert.ok(granted.value.revision > 0, 'with the revision that it has to see first');
    cluster.settle(2);
  });

  test('a node whose address table stays behind loses its containers to replicas', () => {
    const cluster = settledCluster(3, { containers: 3, copies: 2 });
    const b = cluster.node('b');
    const fullName = cluster.ownedBy('b');
    // It reaches the leader, but its address table makes no progress: its disk is full, or its manager hangs.
    b.registry.interrupt();
    cluster.lead('c');
    cluster.until(() => cluster.ownerOf(fullName) !== 'b', 3 * placementLeaseMs, 'taken over by a replica');
    cluster.until(() => cluster.node(cluster.ownerOf(fullName)).serves(fullName), placementLeaseMs, 'served');
    b.registry.resume();
    cluster.settle(2);
  });

  test('a new leader grants no lease before it has seen all changes of former leaders', () => {
    const cluster = settledCluster(3, { containers: 3 });
    const b = cluster.node('b');
    b.registry.interrupt();
    cluster.lead('b');
    const outcome = b.placer?.grantServingLease(b.id, b.generation);
    assert.ok(outcome?.ok === false && outcome.error.code === 'NOT_LEADER');
    b.registry.resume();
    cluster.until(() => b.placer?.grantServingLease(b.id, b.generation).ok === true, 2_000, 'granted');
  });

  test('a new leader decides nothing before its view shows its own claim', () => {
    const placer = new Placer(placerDefaults, () => undefined);
    const fence = fenceOf(2, 1);
    placer.step(0, { kind: 'elected', fence });
    const [claim] = placer.step(1, { kind: 'loaded', entries: [], revision: 10, epoch: registryEpoch('', 0) });
    assert.ok(claim?.kind === 'transact');
    const outcome = success({ succeeded: true, epoch: registryEpoch('', 0), revision: 12, results: [] });
    assert.deepEqual(placer.step(2, { kind: 'transacted', id: claim.id, outcome }), []);
    placer.step(3, { kind: 'changed', changes: [], revision: 11 });
    assert.equal(placer.phase, 'claiming');
    const effects = placer.step(4, { kind: 'changed', changes: [], revision: 12 });
    assert.deepEqual(effects[0], { kind: 'emit', event: { kind: 'placer.leading' } });
  });

  test('an ended generation of a node gets the error FENCED', () => {
    const cluster = settledCluster(3, { containers: 3 });
    const [a, b] = [cluster.node('a'), cluster.node('b')];
    b.kill();
    b.start();
    cluster.run(100);
    const outcome = a.placer?.grantServingLease(b.id, 1);
    assert.ok(outcome?.ok === false && outcome.error.code === 'FENCED');
    cluster.settle(2);
  });

  for (let seed = 1; seed <= 40; seed++) {
    test(`random faults with seed ${seed} leave one owner at a time, lose no acknowledged write, and settle`, () => {
      runRandomFaults(seed);
    });
  }
});

/** Random kills, pauses, cuts, drains, moves and changes of leader among five nodes; then no more faults. */
function runRandomFaults(seed: number): void {
  const random = new Random(`placement/${seed}`);
  const cluster = new PlacementTestCluster();
  cluster.add(5);
  cluster.lead('a');
  cluster.create('p', { containers: 6, copies: 2 });
  cluster.create('q', { containers: 4, copies: 3, restart: true });
  cluster.until(() => cluster.records.size === 10, 5_000, 'created');
  for (let round = 0; round < 60; round++) {
    injectFault(cluster, random);
    cluster.run(random.below(1_500));
  }
  for (const node of cluster.nodes) {
    if (node.isCut) node.heal();
    node.resume();
    Object.assign(node, { opens: 'well', copies: 'well', hands: 'well' });
    if (!node.isUp) node.start();
    node.setMode('active');
  }
  cluster.run(50);
  cluster.lead('c');
  const isHealed = (): boolean =>
    [...cluster.records].every(([fullName, { phase, move, inSync }]) => {
      const isServed =
        phase === 'serving' && move === undefined && cluster.node(cluster.ownerOf(fullName)).serves(fullName);
      return isServed && inSync.length === (fullName.startsWith('q') ? 3 : 2);
    });
  cluster.until(isHealed, 200_000, `healed (seed ${seed})`);
  assert.equal(cluster.records.size, 10);
}

function injectFault(cluster: PlacementTestCluster, random: Random): void {
  const node = cluster.nodes[random.below(cluster.nodes.length)] ?? assert.fail();
  const up = cluster.nodes.filter(({ isUp, isCut, isPaused }) => isUp && !isCut && !isPaused);
  const kinds = ['kill', 'start', 'pause', 'resume', 'cut', 'heal', 'mode', 'lead', 'move', 'gone', 'open', 'copy'];
  const kind = kinds[random.below(kinds.length)];
  if (kind === 'kill' && node.isUp && up.length > 2) node.kill();
  if (kind === 'start' && !node.isUp) node.start();
  if (kind === 'pause' && up.length > 2) node.pause();
  if (kind === 'resume') node.resume();
  if (kind === 'cut' && up.length > 2) node.cut();
  if (kind === 'heal' && node.isCut) node.heal();
  if (kind === 'mode')
    node.setMode((['active', 'active', 'draining', 'drained'] as const)[random.below(4)] ?? 'active');
  if (kind === 'open') node.opens = (['well', 'well', 'fails', 'never'] as const)[random.below(4)] ?? 'well';
  if (kind === 'copy') node.copies = random.chance(0.5) ? 'well' : 'never';
  if (kind === 'gone' && !node.isUp) cluster.leader?.placer?.nodeGone(node.id, node.generation);
  if (kind === 'lead' && up.length > 0) {
    const next = up[random.below(up.length)] ?? node;
    cluster.lead(next.name, random.chance(0.5) ? 'knows' : 'does not know');
  }
  if (kind === 'move') {
    const texts = [...cluster.records.keys()];
    const [pool = '', number] = (texts[random.below(texts.length)] ?? '').split('/');
    cluster.leader?.placer?.requestMove(pool, Number(number), node.id, 'admin', () => {});
  }
}
