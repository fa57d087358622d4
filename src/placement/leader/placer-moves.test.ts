import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { PlacementTestCluster } from '../../../test/support/placement/placement-cluster.ts';
import { type MoveStep, moveSteps } from '../state/container-records.ts';

const fullName = 'p/0';

/** e leads and holds nothing; of a to d, b owns the container, and one other node has a replica. */
function movableCluster(copies = 2): PlacementTestCluster {
  const cluster = new PlacementTestCluster();
  cluster.add(5);
  cluster.node('e').setMode('drained');
  cluster.run(50);
  cluster.lead('e');
  cluster.create('p', { containers: 8, copies });
  cluster.settle(copies);
  if (cluster.ownerOf(fullName) !== 'b') assert.ok(cluster.move(fullName, 'b').ok);
  cluster.until(() => cluster.node('b').serves(fullName), 5_000, 'b owns it');
  cluster.settle(copies);
  cluster.events.length = 0;
  return cluster;
}

function other(cluster: PlacementTestCluster): string {
  return (
    cluster.nodes.find(({ name }) => name !== 'e' && !cluster.copies(fullName).split(' ').includes(name))?.name ?? 'd'
  );
}

/** Runs a function as soon as the move is at that step; the result tells whether it ran. */
function atStep(cluster: PlacementTestCluster, step: MoveStep, run: () => void): () => boolean {
  let isDone = false;
  cluster.onRecord = (one, { move }) => {
    if (one !== fullName || isDone || move?.step !== step) return;
    isDone = true;
    cluster.clock.schedule(0, run);
  };
  return () => isDone;
}

function resultOf(outcome: ReturnType<PlacementTestCluster['move']>): string {
  return outcome.ok ? 'ok' : `${outcome.error.code}: ${outcome.error.message}`;
}

describe('a move', () => {
  test('to a node without a replica copies the state first, and drops the former owner if it is not needed', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    const copy = cluster.copies(fullName).split(' ')[1] ?? '';
    assert.ok(cluster.move(fullName, to).ok);
    cluster.until(() => cluster.node(to).serves(fullName), 3_000, 'served there');
    assert.equal(cluster.record(fullName).opening, 'migrate');
    assert.equal(cluster.copies(fullName), `${to} ${copy}`);
    cluster.settle(2);
    assert.equal(
      cluster.events.filter((event) => event.startsWith(`container.moving ${fullName} b -> ${to}`)).length,
      1,
    );
    assert.equal(
      cluster.events.filter((event) => event.startsWith(`container.migrated ${fullName} b -> ${to}`)).length,
      1,
    );
  });

  test('to a replica keeps the former owner as a replica', () => {
    const cluster = movableCluster();
    const copy = cluster.copies(fullName).split(' ')[1] ?? '';
    assert.ok(cluster.move(fullName, copy).ok);
    cluster.until(() => cluster.node(copy).serves(fullName), 3_000, 'served there');
    assert.equal(cluster.copies(fullName), `${copy} b`);
  });

  test('of a container with one replica leaves one replica', () => {
    const cluster = movableCluster(1);
    assert.ok(cluster.move(fullName, 'd').ok);
    cluster.until(() => cluster.node('d').serves(fullName), 3_000, 'served there');
    cluster.settle(1);
    assert.equal(cluster.copies(fullName), 'd');
  });

  test('that is impossible is refused with the reason', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    assert.match(resultOf(cluster.move('q/0', 'd')), /^UNKNOWN_POOL/);
    assert.match(resultOf(cluster.move('p/99', 'd')), /^UNKNOWN_CONTAINER/);
    assert.match(resultOf(cluster.move(fullName, 'unknown')), /^PRECONDITION: there is no node/);
    assert.equal(resultOf(cluster.move(fullName, 'b')), 'PRECONDITION: b owns it already');
    cluster.node(to).setMode('drained');
    cluster.run(50);
    assert.equal(resultOf(cluster.move(fullName, to)), `PRECONDITION: ${to} is drained`);
    cluster.node(to).setMode('active');
    cluster.node(to).pause();
    cluster.run(1_500);
    assert.equal(resultOf(cluster.move(fullName, to)), `PRECONDITION: ${to} does not answer`);
    cluster.node(to).resume();
    cluster.run(100);
    cluster.node('b').hands = 'never';
    assert.ok(cluster.move(fullName, to).ok);
    assert.equal(resultOf(cluster.move(fullName, to)), `PRECONDITION: it is already moving to ${to}`);
    cluster.node(to).kill();
    cluster.run(10_000);
    assert.equal(resultOf(cluster.move(fullName, to)), `PRECONDITION: ${to} is not registered`);
    for (const node of cluster.nodes) node.opens = 'never';
    cluster.node('b').kill();
    cluster.run(1_500);
    assert.equal(resultOf(cluster.move(fullName, to)), 'PRECONDITION: it is not being served at this moment');
    cluster.leader?.leadership.lose();
    assert.match(resultOf(cluster.move(fullName, to)), /^NOT_LEADER/);
  });

  for (const step of moveSteps) {
    for (const victim of ['owner', 'destination', 'both', 'replica'] as const) {
      test(`ends with one owner that has all state when ${victim} is killed at ${step}`, () => {
        const cluster = movableCluster();
        const to = other(cluster);
        const copy = cluster.copies(fullName).split(' ')[1] ?? '';
        const dying = { owner: ['b'], destination: [to], both: ['b', to], replica: [copy] }[victim];
        const isReached = atStep(cluster, step, () => {
          for (const name of dying) cluster.node(name).kill();
        });
        assert.ok(cluster.move(fullName, to).ok);
        cluster.until(() => isReached(), 5_000, `the step ${step}`);
        const isServed = (): boolean => {
          const { phase, move } = cluster.record(fullName);
          return phase === 'serving' && move === undefined && cluster.node(cluster.ownerOf(fullName)).serves(fullName);
        };
        cluster.until(isServed, 6_000, 'served again');
        for (const name of dying) cluster.node(name).start();
        cluster.settle(2, 20_000);
      });
    }

    test(`ends with all state served when all nodes are killed at ${step} and restart`, () => {
      const cluster = movableCluster();
      const isReached = atStep(cluster, step, () => {
        for (const node of cluster.nodes) node.kill();
      });
      assert.ok(cluster.move(fullName, other(cluster)).ok);
      cluster.until(() => isReached(), 5_000, `the step ${step}`);
      cluster.run(5_000);
      for (const node of cluster.nodes) node.start();
      cluster.run(50);
      cluster.lead('c');
      cluster.settle(2, 20_000);
    });

    test(`continues under the next leader when the leader is lost at ${step}, and refuses the lost leader`, () => {
      const cluster = movableCluster();
      const to = other(cluster);
      const isReached = atStep(cluster, step, () => cluster.lead('a', 'does not know'));
      assert.ok(cluster.move(fullName, to).ok);
      cluster.until(() => isReached() && cluster.node(to).serves(fullName), 8_000, 'moved');
      cluster.settle(2);
      assert.equal(cluster.events.filter((event) => event.startsWith(`container.migrated ${fullName}`)).length, 1);
      assert.equal(cluster.node('e').placer?.phase, 'superseded');
    });
  }

  test('to a destination that never catches up is cancelled, and the owner serves all the time', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    cluster.node(to).copies = 'never';
    const { fence } = cluster.record(fullName);
    assert.ok(cluster.move(fullName, to).ok);
    cluster.run(59_000);
    assert.equal(cluster.record(fullName).move?.step, 'copying');
    assert.ok(cluster.node('b').serves(fullName));
    cluster.until(() => cluster.record(fullName).move === undefined, 2_000, 'cancelled');
    assert.equal(cluster.record(fullName).fence, fence);
    cluster.until(() => !cluster.copies(fullName).includes(to), 2_000, 'the surplus replica is dropped');
    assert.match(
      cluster.events.findLast((event) => event.startsWith('container.moveCancelled')) ?? '',
      /copying its state took/,
    );
    cluster.settle(2);
  });

  test('from an owner that never hands over is cancelled', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    cluster.node('b').hands = 'never';
    assert.ok(cluster.move(fullName, to).ok);
    cluster.until(() => cluster.record(fullName).move?.step === 'handing', 2_000, 'the handover is requested');
    cluster.run(44_000);
    assert.equal(cluster.record(fullName).move?.step, 'handing');
    cluster.until(() => cluster.record(fullName).move === undefined, 2_000, 'cancelled');
    assert.equal(cluster.ownerOf(fullName), 'b');
    cluster.settle(2);
    assert.equal(cluster.copies(fullName).split(' ').length, 2);
  });

  test('to a destination that is being drained is cancelled', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    cluster.node(to).copies = 'never';
    assert.ok(cluster.move(fullName, to).ok);
    cluster.node(to).setMode('draining');
    cluster.until(() => cluster.record(fullName).move === undefined, 2_000, 'cancelled');
    assert.equal(cluster.ownerOf(fullName), 'b');
  });

  test('that was handed over to a node that dies returns to the former owner under a new fence', () => {
    const cluster = movableCluster();
    const to = other(cluster);
    const { fence } = cluster.record(fullName);
    // At once: before the leader sees the step handed.
    cluster.onRecord = (one, { move }) => {
      if (one !== fullName || move?.step !== 'handed' || !cluster.node(to).isUp) return;
      cluster.node(to).kill();
      cluster.leader?.placer?.nodeGone(cluster.node(to).id, cluster.node(to).generation);
    };
    assert.ok(cluster.move(fullName, to).ok);
    cluster.until(
      () => cluster.record(fullName).fence > fence && cluster.node('b').serves(fullName),
      5_000,
      'b has it again',
    );
    assert.match(cluster.events.findLast((event) => event.startsWith('container.migrated')) ?? '', /b -> b/);
    cluster.settle(2);
  });
});
