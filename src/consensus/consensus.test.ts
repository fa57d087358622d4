import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import {
  barrier,
  appliedEverywhere,
  threeVoters,
  transfer,
  untilEnded,
} from '../../test/support/consensus/consensus-calls.ts';
import { ConsensusTestCluster, idOf, voterOf } from '../../test/support/consensus/consensus-cluster.ts';
import { isRemusterError } from '../base/errors.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import { defaultConsensusOptions, leaderLeaseMs } from './state/options.ts';

describe('a group', () => {
  test('of one voter agrees with itself, and waits a promise after a restart', () => {
    const world = new ConsensusTestCluster();
    world.group('n1');
    world.untilLeader(500);
    assert.equal(untilEnded(world, world.propose('n1', 'a')), 'ok');
    world.kill('n1');
    world.start('n1');
    const startMs = world.nowMs;
    world.untilLeader(1_000);
    assert.ok(world.nowMs - startMs >= defaultConsensusOptions.electionTimeoutMs);
    assert.deepEqual(world.voter('n1').replica.items, ['a']);
  });

  test('of three agrees in the same order, and results come to the one who proposed', () => {
    const { world, leader } = threeVoters();
    const ends = Array.from({ length: 100 }, (_, i) => world.propose(leader, `${i}`));
    world.until('all agreed', () => ends.every(({ outcome }) => outcome?.ok === true));
    assert.deepEqual(
      ends.map(({ outcome }) => outcome?.ok === true && (outcome.value as { result: number }).result),
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    const items = Array.from({ length: 100 }, (_, i) => `${i}`);
    world.until('all applied', () => appliedEverywhere(world, items), 500);
  });

  test('ends no call before it has returned', () => {
    const { world, leader, others } = threeVoters();
    const refused = world.propose(others[0] as string, 'x');
    assert.equal(refused.outcome, undefined);
    assert.equal(untilEnded(world, refused), 'NOT_LEADER');
    const read = barrier(world, leader);
    assert.equal(read.outcome, undefined);
    assert.equal(untilEnded(world, read), 'ok');
  });

  test('ends a call at its deadline', () => {
    const { world, leader } = threeVoters();
    world.isolate(leader);
    const ended = world.propose(leader, 'x', 50);
    const startMs = world.nowMs;
    assert.equal(untilEnded(world, ended), 'DEADLINE');
    assert.ok(world.nowMs - startMs <= 53);
  });

  test('elects another leader when its leader dies, and loses nothing that was agreed', () => {
    const { world, leader } = threeVoters();
    assert.equal(untilEnded(world, world.propose(leader, 'a')), 'ok');
    world.kill(leader);
    const startMs = world.nowMs;
    const next = world.untilLeader(3_000).self.name;
    assert.ok(world.nowMs - startMs < 1_500);
    assert.equal(untilEnded(world, world.propose(next, 'b')), 'ok');
    world.start(leader);
    world.until('the old leader follows', () => appliedEverywhere(world, ['a', 'b']));
  });

  test('is faster when the process of the leader is known to be gone', () => {
    const { world, leader, others } = threeVoters();
    const { generation } = world.voter(leader).self;
    world.kill(leader);
    for (const other of others) world.voter(other).host.onProcessGone(idOf(leader), generation);
    world.untilLeader(400);
  });

  test('does not believe that an earlier life of the leader matters', () => {
    const { world, leader, others } = threeVoters();
    for (const other of others) world.voter(other).host.onProcessGone(idOf(leader), 0);
    world.run(3_000);
    assert.equal(world.leader(), leader);
    assert.equal(world.voter(leader).host.view().term, 1);
  });
});

describe('the lease', () => {
  test('ends a leader without a majority, by itself and in time, and says NO_QUORUM', () => {
    const { world, leader } = threeVoters();
    world.isolate(leader);
    assert.ok(world.voter(leader).host.leadership.isLeading());
    world.run(leaderLeaseMs(defaultConsensusOptions));
    assert.equal(world.voter(leader).host.leadership.isLeading(), false);
    assert.equal(world.voter(leader).host.view().self, 'leader');
    assert.equal(untilEnded(world, world.propose(leader, 'x')), 'NO_QUORUM');
  });

  test('is never held by two, whatever the clocks do within 1.2', () => {
    for (const [own, other] of [
      [1 / 1.2, 1.2],
      [1.2, 1 / 1.2],
      [1, 1.2],
    ] as const) {
      const world = new ConsensusTestCluster();
      world.start('n1', own);
      for (const key of ['n2', 'n3']) world.start(key, other);
      world.run(10);
      const members = ['n1', 'n2', 'n3'].map(voterOf);
      for (const key of world.keys) world.voter(key).host.bootstrap(members, () => {});
      world.untilLeader();
      if (world.leader() !== 'n1')
        assert.equal(untilEnded(world, transfer(world, world.leader() as string, 'n1')), 'ok');
      world.untilLeader();
      world.isolate('n1');
      const leads = (key: string): boolean => world.voter(key).host.leadership.isLeading();
      for (const endMs = world.nowMs + 5_000; world.nowMs < endMs; world.timeline.step()) {
        assert.ok(!(leads('n1') && (leads('n2') || leads('n3'))));
      }
      assert.ok(leads('n2') || leads('n3'));
    }
  });

  test('is not renewed by the answer to a message of an earlier term, which names no round', () => {
    const answers: ConsensusMessage[] = [];
    const world = new ConsensusTestCluster({
      said: (_from, _to, message) => void (message.kind === 'appendReply' && answers.push(message)),
    });
    world.group('n1', 'n2', 'n3');
    const former = world.untilLeader();
    assert.equal(untilEnded(world, transfer(world, former.self.name)), 'ok');
    const follower = world.keys.find((key) => key !== former.self.name && key !== world.leader()) as string;
    answers.length = 0;
    const late = { prevIndex: 0, prevTerm: 0, commitIndex: 0, entries: [] };
    const { group } = world.voter(follower).host.view();
    world.voter(follower).host.onMessage(former.self, { kind: 'append', group, term: 1, round: 11, ...late });
    world.run(1);
    const answer = answers.find((message) => message.kind === 'appendReply' && !message.ok);
    assert.ok(answer?.kind === 'appendReply' && answer.term === 2 && answer.round === 0, JSON.stringify(answer));
  });

  test('a voter that is cut off raises no term', () => {
    const { world, leader, others } = threeVoters();
    const [cut] = others as [string];
    world.isolate(cut);
    world.run(10_000);
    assert.equal(world.voter(cut).host.view().term, 1);
    assert.equal(world.voter(cut).host.view().self, 'candidate');
    world.heal();
    world.run(1_000);
    assert.equal(world.leader(), leader);
    assert.equal(world.voter(leader).host.view().term, 1);
  });

  test('reads without a lease ask a majority first', () => {
    const { world, leader, others } = threeVoters();
    world.isolate(leader);
    world.until('it stops', () => !world.voter(leader).host.leadership.isLeading());
    const read = barrier(world, leader, 150);
    const lost = barrier(world, leader, 20);
    assert.equal(untilEnded(world, lost), 'DEADLINE');
    world.heal();
    assert.equal(untilEnded(world, read), 'ok');
    assert.equal(untilEnded(world, barrier(world, others[0] as string)), 'NOT_LEADER');
  });
});

describe('leadership', () => {
  test('is handed over to the voter that is named', () => {
    const { world, leader, others } = threeVoters();
    const [, to] = others as [string, string];
    const ended = transfer(world, leader, to);
    assert.equal(untilEnded(world, ended), 'ok');
    world.until('it leads', () => world.leader() === to, 100);
  });

  test('stays when the other voter does not take it, and goes on', () => {
    const { world, leader, others } = threeVoters();
    const [to] = others as [string];
    world.cut(leader, to, true);
    const ended = transfer(world, leader, to);
    assert.equal(untilEnded(world, world.propose(leader, 'x')), 'NOT_LEADER');
    assert.equal(untilEnded(world, ended), 'DEADLINE');
    world.untilLeader(500);
    assert.equal(world.leader(), leader);
    assert.equal(untilEnded(world, world.propose(leader, 'y')), 'ok');
  });

  test('is refused to those who cannot have it', () => {
    const { world, leader, others } = threeVoters();
    assert.equal(untilEnded(world, transfer(world, leader, 'n9')), 'PRECONDITION');
    assert.equal(untilEnded(world, transfer(world, leader, leader)), 'PRECONDITION');
    assert.equal(untilEnded(world, transfer(world, others[0] as string)), 'NOT_LEADER');
    const alone = new ConsensusTestCluster();
    alone.group('n1');
    alone.untilLeader();
    assert.equal(untilEnded(alone, transfer(alone, 'n1')), 'PRECONDITION');
  });

  test('goes to a healthier voter, and stays when there is none', () => {
    const { world, leader } = threeVoters();
    for (const key of world.keys) world.voter(key).host.healthChanged(8);
    world.run(2_000);
    assert.equal(world.leader(), leader);
    for (const key of world.keys) if (key !== leader) world.voter(key).host.healthChanged(1);
    world.until('another leads', () => (world.leader() ?? leader) !== leader, 2_000);
  });

  test('comes back although all voters are unhealthy', () => {
    const { world, leader } = threeVoters();
    for (const key of world.keys) world.voter(key).host.healthChanged(8);
    world.run(500);
    world.kill(leader);
    world.untilLeader(5_000);
  });

  test('is told to those who watch', () => {
    const { world, leader, others } = threeVoters();
    const heard: string[] = [];
    const [to] = others as [string];
    world.voter(leader).host.leadership.watch({ lost: (reason) => heard.push(`lost: ${reason}`) });
    const cancel = world.voter(to).host.leadership.watch({
      elected: (fence) => heard.push(`became ${fence >> 40n}`),
      changed: ({ term }) => heard.push(`changed ${term}`),
    });
    assert.equal(untilEnded(world, transfer(world, leader, to)), 'ok');
    world.run(100);
    cancel();
    world.kill(to);
    assert.deepEqual(heard, ['changed 2', 'lost: another voter has a higher term', 'changed 2', 'became 2']);
  });

  test('is given up when the disk fails, and nothing is lost when it works again', () => {
    const { world, leader } = threeVoters();
    world.voter(leader).diskFull = true;
    const open = world.propose(leader, 'a');
    assert.equal(untilEnded(world, open), 'NETWORK_TIMEOUT');
    const next = world.untilLeader(2_000).self.name;
    assert.notEqual(next, leader);
    assert.equal(untilEnded(world, world.propose(next, 'b')), 'ok');
    world.voter(leader).diskFull = false;
    world.until('it has caught up', () => world.voter(leader).replica.items.includes('b'), 2_000);
    world.until('all are the same', () => appliedEverywhere(world, world.voter(next).replica.items), 500);
  });
});

describe('what makes no sense', () => {
  test('changes nothing', () => {
    const { world, leader, others } = threeVoters();
    const from = world.voter(others[0] as string).self;
    const { host } = world.voter(leader);
    const before = host.view();
    const about = { group: 'g', term: 2 ** 24, lastIndex: 99, lastTerm: 9 } as const;
    host.onMessage(from, { kind: 'vote', ...about, releasedTerm: undefined, releasedRound: undefined });
    host.onMessage(from, { kind: 'preVote', ...about, group: 'other', term: 2 });
    host.onMessage(from, { kind: 'takeOver', group: 'g', term: 1, round: 1 });
    const append = {
      kind: 'append',
      group: 'g',
      term: 1,
      round: 1,
      prevIndex: 1,
      prevTerm: 1,
      commitIndex: 9,
    } as const;
    host.onMessage(from, { ...append, entries: [] });
    assert.deepEqual(host.view(), before);
    const [follower] = others as [string];
    world.voter(follower).host.onMessage(world.voter(leader).self, { ...append, entries: [new Uint8Array(3)] });
    world.run(500);
    assert.equal(world.leader(), leader);
    assert.deepEqual(world.voter(follower).host.counters(), { 'rejected.malformed': 1 });
    assert.deepEqual(host.counters(), { 'rejected.term': 1, 'rejected.group': 1, 'rejected.secondLeader': 1 });
  });

  test('options that contradict each other are refused', () => {
    const world = new ConsensusTestCluster();
    world.options = { ...defaultConsensusOptions, heartbeatMs: 400 };
    assert.throws(
      () => world.start('n1'),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });
});
