import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  PlacementTestCluster,
  placementLeaseMs,
  settledWorld,
} from '../../../test/support/placement/placement-cluster.ts';
import { success } from '../../base/errors.ts';
import { fenceOf } from '../../base/fence.ts';
import { Random } from '../../base/random.ts';
import { placerDefaults } from './placer-types.ts';
import { Placer } from './placer.ts';

function recovered(world: PlacementTestCluster): readonly string[] {
  return world.events
    .filter((event) => event.startsWith('container.recovered'))
    .map((event) => event.split(':')[0] ?? '');
}

describe('a change of leader', () => {
  test('node and leader die together: the next leader recovers what the node had, once', () => {
    const world = settledWorld(5, { containers: 20, copies: 3 });
    world.node('a').kill();
    world.node('b').kill();
    world.run(200);
    world.lead('c');
    world.until(() => world.isSettled(3), 40_000, 'settled again');
    assert.equal(new Set(recovered(world)).size, recovered(world).length, 'none twice');
  });

  test('leaves an isolated leader without effect, although it sees all nodes die', () => {
    const world = settledWorld(4, { containers: 8 });
    const a = world.node('a');
    a.cut();
    world.lead('b', 'does not know');
    const before = new Map(world.records);
    for (const { id, generation, name } of world.nodes) if (name !== 'a') a.placer?.nodeGone(id, generation);
    world.run(placementLeaseMs);
    for (const [text, { owner }] of before) {
      if (owner?.node !== a.id) assert.deepEqual(world.record(text).owner, owner, 'no owner has changed');
    }
    a.heal();
    world.run(100);
    for (const [text, { owner }] of before) {
      if (owner?.node !== a.id) assert.deepEqual(world.record(text).owner, owner, 'its transactions come too late');
    }
    assert.equal(a.placer?.phase, 'superseded');
    assert.equal(a.placer?.grantServingLease(a.id, a.generation).ok, false);
    world.settle(2);
  });

  test('a node gets no lease while the outcome of a takeover is unknown', () => {
    const world = settledWorld(3, { containers: 3, copies: 2 });
    const [a, b] = [world.node('a'), world.node('b')];
    const text = [...world.records.keys()].find((one) => world.ownerOf(one) === 'b') ?? '';
    b.pause();
    world.run(1_050);
    a.registry.interrupt('NETWORK_TIMEOUT', { takesEffect: true });
    world.run(300);
    assert.notEqual(world.ownerOf(text), 'b', 'the takeover has succeeded, and the leader does not know');
    const outcome = a.placer?.grantServingLease(b.id, b.generation);
    assert.ok(outcome?.ok === false && outcome.error.code === 'PRECONDITION');
    a.registry.resume();
    b.resume();
    world.run(6_000);
    const granted = a.placer?.grantServingLease(b.id, b.generation);
    assert.ok(granted?.ok === true);
    assert.ok(granted.value.revision > 0, 'with the revision that it has to see first');
    world.settle(2);
  });

  test('a node whose address table stays behind loses its containers to replicas', () => {
    const world = settledWorld(3, { containers: 3, copies: 2 });
    const b = world.node('b');
    const text = world.ownedBy('b');
    // It reaches the leader, but its address table makes no progress: its disk is full, or its manager hangs.
    b.registry.interrupt();
    world.lead('c');
    world.until(() => world.ownerOf(text) !== 'b', 3 * placementLeaseMs, 'taken over by a replica');
    world.until(() => world.node(world.ownerOf(text)).serves(text), placementLeaseMs, 'served');
    b.registry.resume();
    world.settle(2);
  });

  test('a new leader grants no lease before it has seen all changes of former leaders', () => {
    const world = settledWorld(3, { containers: 3 });
    const b = world.node('b');
    b.registry.interrupt();
    world.lead('b');
    const outcome = b.placer?.grantServingLease(b.id, b.generation);
    assert.ok(outcome?.ok === false && outcome.error.code === 'NOT_LEADER');
    b.registry.resume();
    world.until(() => b.placer?.grantServingLease(b.id, b.generation).ok === true, 2_000, 'granted');
  });

  test('a new leader decides nothing before its view shows its own claim', () => {
    const placer = new Placer(placerDefaults, () => undefined);
    const fence = fenceOf(2, 1);
    placer.step(0, { kind: 'elected', fence });
    const [claim] = placer.step(1, { kind: 'loaded', entries: [], revision: 10 });
    assert.ok(claim?.kind === 'transact');
    const outcome = success({ succeeded: true, revision: 12, results: [] });
    assert.deepEqual(placer.step(2, { kind: 'transacted', id: claim.id, outcome }), []);
    placer.step(3, { kind: 'changed', changes: [], revision: 11 });
    assert.equal(placer.phase, 'claiming');
    const effects = placer.step(4, { kind: 'changed', changes: [], revision: 12 });
    assert.deepEqual(effects[0], { kind: 'emit', event: { kind: 'placer.leading' } });
  });

  test('an ended generation of a node gets the error FENCED', () => {
    const world = settledWorld(3, { containers: 3 });
    const [a, b] = [world.node('a'), world.node('b')];
    b.kill();
    b.start();
    world.run(100);
    const outcome = a.placer?.grantServingLease(b.id, 1);
    assert.ok(outcome?.ok === false && outcome.error.code === 'FENCED');
    world.settle(2);
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
  const world = new PlacementTestCluster();
  world.add(5);
  world.lead('a');
  world.create('p', { containers: 6, copies: 2 });
  world.create('q', { containers: 4, copies: 3, restart: true });
  world.until(() => world.records.size === 10, 5_000, 'created');
  for (let round = 0; round < 60; round++) {
    injectFault(world, random);
    world.run(random.below(1_500));
  }
  for (const node of world.nodes) {
    if (node.isCut) node.heal();
    node.resume();
    Object.assign(node, { opens: 'well', copies: 'well', hands: 'well' });
    if (!node.isUp) node.start();
    node.setMode('active');
  }
  world.run(50);
  world.lead('c');
  const isHealed = (): boolean =>
    [...world.records].every(([text, { phase, move, inSync }]) => {
      const isServed = phase === 'serving' && move === undefined && world.node(world.ownerOf(text)).serves(text);
      return isServed && inSync.length === (text.startsWith('q') ? 3 : 2);
    });
  world.until(isHealed, 200_000, `healed (seed ${seed})`);
  assert.equal(world.records.size, 10);
}

function injectFault(world: PlacementTestCluster, random: Random): void {
  const node = world.nodes[random.below(world.nodes.length)] ?? assert.fail();
  const up = world.nodes.filter(({ isUp, isCut, isPaused }) => isUp && !isCut && !isPaused);
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
  if (kind === 'gone' && !node.isUp) world.leader?.placer?.nodeGone(node.id, node.generation);
  if (kind === 'lead' && up.length > 0) {
    const next = up[random.below(up.length)] ?? node;
    world.lead(next.name, random.chance(0.5) ? 'knows' : 'does not know');
  }
  if (kind === 'move') {
    const texts = [...world.records.keys()];
    const [pool = '', number] = (texts[random.below(texts.length)] ?? '').split('/');
    world.leader?.placer?.requestMove(pool, Number(number), node.id, 'admin', () => {});
  }
}
