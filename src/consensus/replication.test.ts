import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  type PendingOutcome,
  codeOf,
  appliedEverywhere,
  threeVoters,
  untilEnded,
} from '../../test/support/consensus/consensus-calls.ts';
import { ConsensusTestCluster } from '../../test/support/consensus/consensus-cluster.ts';
import { Random } from '../base/random.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import { defaultConsensusOptions } from './state/options.ts';

describe('the replicated log', () => {
  test('is repaired after a leader appended entries that no follower has', () => {
    const { world, leader, others } = threeVoters();
    assert.equal(untilEnded(world, world.propose(leader, 'a')), 'ok');
    world.isolate(leader);
    for (const text of ['lost1', 'lost2', 'lost3']) world.propose(leader, text);
    world.until('another leads', () => others.includes(world.leader() ?? ''));
    assert.equal(untilEnded(world, world.propose(world.leader() as string, 'b')), 'ok');
    world.heal();
    world.until('all are the same', () => appliedEverywhere(world, ['a', 'b']));
    world.kill(leader);
    world.start(leader);
    world.until('also after a restart', () => appliedEverywhere(world, ['a', 'b']));
  });

  test('is replicated although messages are lost', () => {
    const { world, leader, others } = threeVoters();
    const [slow] = others as [string];
    world.cut(leader, slow, true);
    for (let i = 0; i < 20; i++) assert.equal(untilEnded(world, world.propose(leader, `${i}`)), 'ok');
    world.heal();
    const items = Array.from({ length: 20 }, (_, i) => `${i}`);
    world.until('it has caught up', () => appliedEverywhere(world, items), 500);
  });

  test('is replicated although replies are lost', () => {
    const { world, leader, others } = threeVoters();
    const [slow, other] = others as [string, string];
    world.isolate(other);
    world.cut(slow, leader, true);
    const ended = world.propose(leader, 'a');
    world.run(200);
    world.cut(other, slow);
    world.heal();
    assert.equal(untilEnded(world, ended), 'ok');
  });

  test('is replicated although messages are lost, duplicated and reordered', () => {
    for (let seed = 0; seed < 10; seed++) {
      const { world, leader } = threeVoters();
      const random = new Random(`rough ${seed}`);
      const delayMs = (): number => random.between(1, 40);
      world.travel = () => (random.chance(0.1) ? [] : random.chance(0.1) ? [delayMs(), delayMs()] : [delayMs()]);
      const items = Array.from({ length: 50 }, (_, i) => `${i}`);
      for (const text of items) {
        world.propose(leader, text);
        world.run(random.below(20));
      }
      world.until('all are the same', () => appliedEverywhere(world, items), 5_000);
      assert.equal(world.leader(), leader);
    }
  });

  test('refuses proposals beyond its bounds', () => {
    const world = new ConsensusTestCluster();
    world.options = { ...defaultConsensusOptions, proposalsMax: 10 };
    world.group('n1', 'n2', 'n3');
    const leader = world.untilLeader().self.name;
    const ends = Array.from({ length: 12 }, (_, i) => world.propose(leader, `${i}`));
    world.until('all ended', () => ends.every(({ outcome }) => outcome !== undefined));
    assert.deepEqual(ends.map(codeOf).slice(9), ['ok', 'CAPACITY', 'CAPACITY']);
    const large: PendingOutcome = {};
    world.voter(leader).host.propose(new Uint8Array(2_097_152), 1_000, (outcome) => {
      large.outcome = outcome;
    });
    assert.equal(untilEnded(world, large), 'TOO_LARGE');
  });

  test('carries many proposals in few messages', () => {
    const sent: ConsensusMessage[] = [];
    const world = new ConsensusTestCluster({ onSend: (_from, _to, message) => sent.push(message) });
    world.group('n1', 'n2', 'n3');
    const leader = world.untilLeader().self.name;
    world.run(50);
    sent.length = 0;
    const ends = Array.from({ length: 1_000 }, (_, i) => world.propose(leader, `${i}`));
    world.until('all committed', () => ends.every(({ outcome }) => outcome?.ok === true));
    assert.ok(sent.filter(({ kind }) => kind === 'appendEntries').length <= 8);
  });
});

describe('snapshots', () => {
  function small(): ConsensusTestCluster {
    const world = new ConsensusTestCluster();
    world.options = { ...defaultConsensusOptions, snapshotEntriesMax: 20, tailEntriesMax: 5 };
    world.group('n1', 'n2', 'n3');
    return world;
  }

  function fill(world: ConsensusTestCluster, from: number, to: number): void {
    for (let i = from; i < to; i++) {
      assert.equal(untilEnded(world, world.propose(world.leader() as string, `item ${i}`)), 'ok');
    }
  }

  const items = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `item ${i}`);

  test('keep the log short in memory and on disk, and survive a restart', () => {
    const world = small();
    world.untilLeader();
    fill(world, 0, 100);
    world.run(200);
    for (const key of world.keys) assert.ok(world.voter(key).disk.size < 40, `${world.voter(key).disk.size} records`);
    for (const key of [...world.keys]) world.kill(key);
    for (const key of [...world.keys]) world.start(key);
    world.untilLeader();
    world.until('all is there', () => appliedEverywhere(world, items(100)), 1_000);
    fill(world, 100, 101);
  });

  test('bring a voter that was away for long up to date', () => {
    const world = small();
    const leader = world.untilLeader().self.name;
    const away = world.keys.find((key) => key !== leader) as string;
    fill(world, 0, 5);
    world.isolate(away);
    fill(world, 5, 100);
    world.heal();
    world.until('it has caught up', () => appliedEverywhere(world, items(100)), 3_000);
    fill(world, 100, 105);
    world.kill(away);
    world.start(away);
    world.until('also after a restart', () => appliedEverywhere(world, items(105)), 3_000);
  });

  test('of many parts arrive complete', () => {
    const world = new ConsensusTestCluster();
    world.options = { ...defaultConsensusOptions, snapshotLogBytes: 100_000, tailEntriesMax: 0 };
    world.group('n1', 'n2', 'n3');
    const leader = world.untilLeader().self.name;
    const away = world.keys.find((key) => key !== leader) as string;
    world.isolate(away);
    const long = 'x'.repeat(400_000);
    for (let i = 0; i < 6; i++) assert.equal(untilEnded(world, world.propose(leader, `${i}${long}`)), 'ok');
    world.run(100);
    world.heal();
    world.until('it has caught up', () => world.voter(away).stateMachine.items.length === 6, 5_000);
    assert.deepEqual(world.voter(away).stateMachine.items, world.voter(leader).stateMachine.items);
  });
});
