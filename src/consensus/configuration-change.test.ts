import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type PendingOutcome, change, threeVoters, untilEnded } from '../../test/support/consensus/consensus-calls.ts';
import { configurationAfter } from './state/configuration-log.ts';
import type { GroupChange } from './state/state-machine.ts';
import { ConsensusTestCluster, addressOf, idOf } from '../../test/support/consensus/consensus-cluster.ts';

const joiner = { id: idOf('n4'), name: 'n4', ...addressOf('n4') };

describe('configuration changes', () => {
  test('add, promote and remove members one at a time', () => {
    const { world, leader } = threeVoters();
    assert.equal(untilEnded(world, world.propose(leader, 'a')), 'ok');
    world.start('n4');
    world.run(10);
    assert.equal(world.voter('n4').host.view().self, 'outside');
    const added = change(world, leader, { kind: 'add', member: joiner });
    assert.equal(untilEnded(world, change(world, leader, { kind: 'remove', id: idOf('n4') })), 'CAPACITY');
    assert.equal(untilEnded(world, added), 'ok');
    assert.equal(untilEnded(world, change(world, leader, { kind: 'add', member: joiner })), 'PRECONDITION');
    world.until('it has caught up', () =>
      world
        .voter(leader)
        .host.progress()
        .every(({ caughtUp }) => caughtUp),
    );
    assert.deepEqual(world.voter('n4').stateMachine.items, ['a']);
    assert.equal(world.voter('n4').host.view().self, 'syncing');
    assert.equal(untilEnded(world, change(world, leader, { kind: 'promote', id: idOf('n4') })), 'ok');
    world.until('it is a voter', () => world.voter('n4').host.view().self === 'follower', 500);
    const other = world.keys.find((key) => key !== leader) as string;
    assert.equal(untilEnded(world, change(world, leader, { kind: 'remove', id: idOf(other) })), 'ok');
    world.until('it knows', () => world.voter(other).host.view().self === 'outside', 500);
    world.run(3_000);
    assert.equal(world.leader(), leader);
    assert.equal(world.voter(leader).host.view().members.length, 3);
  });

  test('do not promote a member that has not caught up', () => {
    const { world, leader } = threeVoters();
    assert.equal(untilEnded(world, change(world, leader, { kind: 'add', member: joiner })), 'ok');
    assert.equal(untilEnded(world, change(world, leader, { kind: 'promote', id: idOf('n4') })), 'PRECONDITION');
    assert.equal(untilEnded(world, change(world, leader, { kind: 'promote', id: idOf('n9') })), 'PRECONDITION');
  });

  test('do not promote a member that lacks the entry that adds it: it would grant no vote', () => {
    const world = new ConsensusTestCluster();
    world.group('n1');
    world.untilLeader();
    world.start('n4');
    world.travel = (message) => (message.kind === 'appendEntries' && message.entries.length > 0 ? [] : [1]);
    assert.equal(untilEnded(world, change(world, 'n1', { kind: 'add', member: joiner })), 'ok');
    world.run(1_000);
    assert.equal(world.voter('n4').host.view().self, 'outside');
    assert.equal(untilEnded(world, change(world, 'n1', { kind: 'promote', id: joiner.id })), 'PRECONDITION');
  });

  test('count a syncing member in no majority', () => {
    const { world, leader, others } = threeVoters();
    world.start('n4');
    assert.equal(untilEnded(world, change(world, leader, { kind: 'add', member: joiner })), 'ok');
    world.run(300);
    for (const other of others) world.kill(other);
    world.run(1_000);
    assert.equal(world.leader(), undefined);
  });

  test('may remove the leader, and another voter is elected at once', () => {
    const { world, leader } = threeVoters();
    const removed = change(world, leader, { kind: 'remove', id: idOf(leader) });
    assert.equal(untilEnded(world, removed), 'ok');
    world.until('another leads', () => (world.leader() ?? leader) !== leader, 200);
    world.run(3_000);
    assert.equal(world.voter(leader).host.view().self, 'outside');
    assert.equal(world.voter(world.leader() as string).host.view().members.length, 2);
  });

  test('cannot remove the last voter', () => {
    const world = new ConsensusTestCluster();
    world.group('n1');
    world.untilLeader();
    assert.equal(untilEnded(world, change(world, 'n1', { kind: 'remove', id: idOf('n1') })), 'PRECONDITION');
  });

  test('say which member they refuse, and what to do', () => {
    const member = (name: string, standing: 'voter' | 'syncing') =>
      ({ id: idOf(name), name, ...addressOf(name), standing }) as const;
    const members = [member('n1', 'voter'), member('n2', 'syncing')];
    const refusal = (change: GroupChange): string => {
      const result = configurationAfter(members, change, () => false);
      return result instanceof Error ? result.message : assert.fail('it is not refused');
    };
    const added = (name: string) => ({ kind: 'add', member: { id: idOf(name), name, ...addressOf(name) } }) as const;
    assert.equal(
      refusal({ kind: 'promote', id: idOf('n1') }),
      'n1 is a voter of the manager group already: there is nothing to promote',
    );
    assert.equal(
      refusal({ kind: 'promote', id: idOf('n2') }),
      'n2 cannot become a voter yet: it has not caught up with the log; try again in some seconds',
    );
    assert.equal(refusal(added('n2')), 'n2 is already a member of the manager group: there is nothing to add');
    assert.equal(
      refusal({ kind: 'remove', id: idOf('n1') }),
      'n1 is the last voter of the manager group: promote another member before you remove it',
    );
    assert.equal(
      refusal({ kind: 'promote', id: idOf('n3') }),
      `node ${idOf('n3')} is not a member of the manager group: add it first`,
    );
  });

  test('grow a group of one to three, and replace a dead voter', () => {
    const world = new ConsensusTestCluster();
    world.group('n1');
    world.untilLeader();
    for (const key of ['n2', 'n3', 'n4']) {
      world.start(key);
      const member = { id: idOf(key), name: key, ...addressOf(key) };
      assert.equal(untilEnded(world, change(world, 'n1', { kind: 'add', member })), 'ok');
      world.until('caught up', () =>
        world
          .voter('n1')
          .host.progress()
          .every(({ caughtUp }) => caughtUp),
      );
      assert.equal(untilEnded(world, change(world, 'n1', { kind: 'promote', id: idOf(key) })), 'ok');
      if (key !== 'n3') continue;
      world.kill('n2');
      assert.equal(untilEnded(world, change(world, 'n1', { kind: 'remove', id: idOf('n2') })), 'ok');
    }
    assert.equal(untilEnded(world, world.propose('n1', 'a')), 'ok');
    world.kill('n1');
    world.untilLeader();
  });

  test('happen once', () => {
    const { world } = threeVoters();
    const ended: PendingOutcome = {};
    world.voter('n1').host.bootstrap([], (outcome) => {
      ended.outcome = outcome;
    });
    assert.equal(untilEnded(world, ended), 'PRECONDITION');
  });
});
