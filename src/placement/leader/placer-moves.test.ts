import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { PlacementTestCluster } from '../../../test/support/placement/placement-cluster.ts';
import { type MoveStep, moveSteps } from '../state/container-records.ts';

const text = 'p/0';

/** e leads and holds nothing; of a to d, b owns the container, and one other node has a replica. */
function movableCluster(copies = 2): PlacementTestCluster {
  const world = new PlacementTestCluster();
  world.add(5);
  world.node('e').setMode('drained');
  world.run(50);
  world.lead('e');
  world.create('p', { containers: 8, copies });
  world.settle(copies);
  if (world.ownerOf(text) !== 'b') assert.ok(world.move(text, 'b').ok);
  world.until(() => world.node('b').serves(text), 5_000, 'b owns it');
  world.settle(copies);
  world.events.length = 0;
  return world;
}

function other(world: PlacementTestCluster): string {
  return world.nodes.find(({ name }) => name !== 'e' && !world.copies(text).split(' ').includes(name))?.name ?? 'd';
}

/** Runs a function as soon as the move is at that step; the result tells whether it ran. */
function atStep(world: PlacementTestCluster, step: MoveStep, run: () => void): () => boolean {
  let isDone = false;
  world.onRecord = (one, { move }) => {
    if (one !== text || isDone || move?.step !== step) return;
    isDone = true;
    world.clock.schedule(0, run);
  };
  return () => isDone;
}

function resultOf(outcome: ReturnType<PlacementTestCluster['move']>): string {
  return outcome.ok ? 'ok' : `${outcome.error.code}: ${outcome.error.message}`;
}

describe('a move', () => {
  test('to a node without a replica copies the state first, and drops the former owner if it is not needed', () => {
    const world = movableCluster();
    const to = other(world);
    const copy = world.copies(text).split(' ')[1] ?? '';
    assert.ok(world.move(text, to).ok);
    world.until(() => world.node(to).serves(text), 3_000, 'served there');
    assert.equal(world.record(text).opening, 'migrate');
    assert.equal(world.copies(text), `${to} ${copy}`);
    world.settle(2);
    assert.equal(world.events.filter((event) => event.startsWith(`container.moving ${text} b -> ${to}`)).length, 1);
    assert.equal(world.events.filter((event) => event.startsWith(`container.migrated ${text} b -> ${to}`)).length, 1);
  });

  test('to a replica keeps the former owner as a replica', () => {
    const world = movableCluster();
    const copy = world.copies(text).split(' ')[1] ?? '';
    assert.ok(world.move(text, copy).ok);
    world.until(() => world.node(copy).serves(text), 3_000, 'served there');
    assert.equal(world.copies(text), `${copy} b`);
  });

  test('of a container with one replica leaves one replica', () => {
    const world = movableCluster(1);
    assert.ok(world.move(text, 'd').ok);
    world.until(() => world.node('d').serves(text), 3_000, 'served there');
    world.settle(1);
    assert.equal(world.copies(text), 'd');
  });

  test('that is impossible is refused with the reason', () => {
    const world = movableCluster();
    const to = other(world);
    assert.match(resultOf(world.move('q/0', 'd')), /^UNKNOWN_POOL/);
    assert.match(resultOf(world.move('p/99', 'd')), /^UNKNOWN_CONTAINER/);
    assert.match(resultOf(world.move(text, 'unknown')), /^PRECONDITION: there is no node/);
    assert.equal(resultOf(world.move(text, 'b')), 'PRECONDITION: b owns it already');
    world.node(to).setMode('drained');
    world.run(50);
    assert.equal(resultOf(world.move(text, to)), `PRECONDITION: ${to} is drained`);
    world.node(to).setMode('active');
    world.node(to).pause();
    world.run(1_500);
    assert.equal(resultOf(world.move(text, to)), `PRECONDITION: ${to} does not answer`);
    world.node(to).resume();
    world.run(100);
    world.node('b').hands = 'never';
    assert.ok(world.move(text, to).ok);
    assert.equal(resultOf(world.move(text, to)), `PRECONDITION: it is already moving to ${to}`);
    world.node(to).kill();
    world.run(10_000);
    assert.equal(resultOf(world.move(text, to)), `PRECONDITION: ${to} is not registered`);
    for (const node of world.nodes) node.opens = 'never';
    world.node('b').kill();
    world.run(1_500);
    assert.equal(resultOf(world.move(text, to)), 'PRECONDITION: it is not being served at this moment');
    world.leader?.leadership.lose();
    assert.match(resultOf(world.move(text, to)), /^NOT_LEADER/);
  });

  for (const step of moveSteps) {
    for (const victim of ['owner', 'destination', 'both', 'replica'] as const) {
      test(`ends with one owner that has all state when ${victim} is killed at ${step}`, () => {
        const world = movableCluster();
        const to = other(world);
        const copy = world.copies(text).split(' ')[1] ?? '';
        const dying = { owner: ['b'], destination: [to], both: ['b', to], replica: [copy] }[victim];
        const isReached = atStep(world, step, () => {
          for (const name of dying) world.node(name).kill();
        });
        assert.ok(world.move(text, to).ok);
        world.until(() => isReached(), 5_000, `the step ${step}`);
        const isServed = (): boolean => {
          const { phase, move } = world.record(text);
          return phase === 'serving' && move === undefined && world.node(world.ownerOf(text)).serves(text);
        };
        world.until(isServed, 6_000, 'served again');
        for (const name of dying) world.node(name).start();
        world.settle(2, 20_000);
      });
    }

    test(`ends with all state served when all nodes are killed at ${step} and restart`, () => {
      const world = movableCluster();
      const isReached = atStep(world, step, () => {
        for (const node of world.nodes) node.kill();
      });
      assert.ok(world.move(text, other(world)).ok);
      world.until(() => isReached(), 5_000, `the step ${step}`);
      world.run(5_000);
      for (const node of world.nodes) node.start();
      world.run(50);
      world.lead('c');
      world.settle(2, 20_000);
    });

    test(`continues under the next leader when the leader is lost at ${step}, and refuses the lost leader`, () => {
      const world = movableCluster();
      const to = other(world);
      const isReached = atStep(world, step, () => world.lead('a', 'does not know'));
      assert.ok(world.move(text, to).ok);
      world.until(() => isReached() && world.node(to).serves(text), 8_000, 'moved');
      world.settle(2);
      assert.equal(world.events.filter((event) => event.startsWith(`container.migrated ${text}`)).length, 1);
      assert.equal(world.node('e').placer?.phase, 'superseded');
    });
  }

  test('to a destination that never catches up is cancelled, and the owner serves all the time', () => {
    const world = movableCluster();
    const to = other(world);
    world.node(to).copies = 'never';
    const { fence } = world.record(text);
    assert.ok(world.move(text, to).ok);
    world.run(59_000);
    assert.equal(world.record(text).move?.step, 'copying');
    assert.ok(world.node('b').serves(text));
    world.until(() => world.record(text).move === undefined, 2_000, 'cancelled');
    assert.equal(world.record(text).fence, fence);
    world.until(() => !world.copies(text).includes(to), 2_000, 'the surplus replica is dropped');
    assert.match(world.events.findLast((event) => event.startsWith('container.moveCancelled')) ?? '', /copying took/);
    world.settle(2);
  });

  test('from an owner that never hands over is cancelled', () => {
    const world = movableCluster();
    const to = other(world);
    world.node('b').hands = 'never';
    assert.ok(world.move(text, to).ok);
    world.until(() => world.record(text).move?.step === 'handing', 2_000, 'the handover is requested');
    world.run(44_000);
    assert.equal(world.record(text).move?.step, 'handing');
    world.until(() => world.record(text).move === undefined, 2_000, 'cancelled');
    assert.equal(world.ownerOf(text), 'b');
    world.settle(2);
    assert.equal(world.copies(text).split(' ').length, 2);
  });

  test('to a destination that is being drained is cancelled', () => {
    const world = movableCluster();
    const to = other(world);
    world.node(to).copies = 'never';
    assert.ok(world.move(text, to).ok);
    world.node(to).setMode('draining');
    world.until(() => world.record(text).move === undefined, 2_000, 'cancelled');
    assert.equal(world.ownerOf(text), 'b');
  });

  test('that was handed over to a node that dies returns to the former owner under a new fence', () => {
    const world = movableCluster();
    const to = other(world);
    const { fence } = world.record(text);
    // At once: before the leader sees the step handed.
    world.onRecord = (one, { move }) => {
      if (one !== text || move?.step !== 'handed' || !world.node(to).isUp) return;
      world.node(to).kill();
      world.leader?.placer?.nodeGone(world.node(to).id, world.node(to).generation);
    };
    assert.ok(world.move(text, to).ok);
    world.until(() => world.record(text).fence > fence && world.node('b').serves(text), 5_000, 'b has it again');
    assert.match(world.events.findLast((event) => event.startsWith('container.migrated')) ?? '', /b -> b/);
    world.settle(2);
  });
});
