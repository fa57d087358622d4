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

describe('a consensus group', () => {
  test('of one voter commits alone, and waits for its voter lease after a restart', () => {
    const world = new ConsensusTestCluster();
    world.group('n1');
    world.untilLeader(500);
    assert.equal(untilEnded(world, world.propose('n1', 'a')), 'ok');
    world.kill('n1');
    world.start('n1');
    const startMs = world.nowMs;
    world.untilLeader(1_000);
    assert.ok(world.nowMs - startMs >= defaultConsensusOptions.electionTimeoutMs);
    assert.deepEqual(world.voter('n1').stateMachine.items, ['a']);
  });

  test('of three commits in one order, and returns results to the proposer', () => {
    const { world, leader } = threeVoters();
    const ends = Array.from({ length: 100 }, (_, i) => world.propose(leader, `${i}`));
    world.until('all committed', () => ends.every(({ outcome }) => outcome?.ok === true));
    assert.deepEqual(
      ends.map(({ outcome }) => outcome?.ok === true && (outcome.value as { result: number }).result),
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    const items = Array.from({ length: 100 }, (_, i) => `${i}`);
    world.until('all applied', () => appliedEverywhere(world, items), 500);
  });

  test('calls back only after the call has returned', () => {
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

  test('elects another leader when its leader dies, and loses no committed entry', () => {
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

  test('elects faster when the process of the leader is known to have ended', () => {
    const { world, leader, others } = threeVoters();
    const { generation } = world.voter(leader).self;
    world.kill(leader);
    for (const other of others) world.voter(other).host.onProcessGone(idOf(leader), generation);
    world.untilLeader(400);
  });

  test('ignores the end of an earlier process of the leader', () => {
    const { world, leader, others } = threeVoters();
    for (const other of others) world.voter(other).host.onProcessGone(idOf(leader), 0);
    world.run(3_000);
    assert.equal(world.leader(), leader);
    assert.equal(world.voter(leader).host.view().term, 1);
  });
});

describe('the leader lease', () => {
  test('ends without a majority, and proposals fail with NO_QUORUM', () => {
    const { world, leader } = threeVoters();
    world.isolate(leader);
    assert.ok(world.voter(leader).host.leadership.isLeading());
    world.run(leaderLeaseMs(defaultConsensusOptions));
    assert.equal(world.voter(leader).host.leadership.isLeading(), false);
    assert.equal(world.voter(leader).host.view().self, 'leader');
    assert.equal(untilEnded(world, world.propose(leader, 'x')), 'NO_QUORUM');
  });

  test('is never held by two leaders while clocks drift within 1.2', () => {
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

  test('is not renewed by a reply to a message of an earlier term, which names no round', () => {
    const replies: ConsensusMessage[] = [];
    const world = new ConsensusTestCluster({
      onSend: (_from, _to, message) => void (message.kind === 'appendEntriesReply' && replies.push(message)),
    });
    world.group('n1', 'n2', 'n3');
    const former = world.untilLeader();
    assert.equal(untilEnded(world, transfer(world, former.self.name)), 'ok');
    const follower = world.keys.find((key) => key !== former.self.name && key !== world.leader()) as string;
    replies.length = 0;
    const late = { prevIndex: 0, prevTerm: 0, commitIndex: 0, entries: [] };
    const { group } = world.voter(follower).host.view();
    world.voter(follower).host.onMessage(former.self, { kind: 'appendEntries', group, term: 1, round: 11, ...late });
    world.run(1);
    const reply = replies.find((message) => message.kind === 'appendEntriesReply' && !message.ok);
    assert.ok(reply?.kind === 'appendEntriesReply' && reply.term === 2 && reply.round === 0, JSON.stringify(reply));
  });

  test('an isolated voter does not raise its term', () => {
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

  test('a read without a lease waits for a majority', () => {
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
  test('is transferred to the named voter', () => {
    const { world, leader, others } = threeVoters();
    const [, to] = others as [string, string];
    const ended = transfer(world, leader, to);
    assert.equal(untilEnded(world, ended), 'ok');
    world.until('it leads', () => world.leader() === to, 100);
  });

  test('stays when the target is not elected', () => {
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

  test('is not transferred to an invalid target', () => {
    const { world, leader, others } = threeVoters();
    assert.equal(untilEnded(world, transfer(world, leader, 'n9')), 'PRECONDITION');
    assert.equal(untilEnded(world, transfer(world, leader, leader)), 'PRECONDITION');
    assert.equal(untilEnded(world, transfer(world, others[0] as string)), 'NOT_LEADER');
    const alone = new ConsensusTestCluster();
    alone.group('n1');
    alone.untilLeader();
    assert.equal(untilEnded(alone, transfer(alone, 'n1')), 'PRECONDITION');
  });

  test('is transferred to a healthier voter, and stays when there is none', () => {
    const { world, leader } = threeVoters();
    for (const key of world.keys) world.voter(key).host.healthChanged(8);
    world.run(2_000);
    assert.equal(world.leader(), leader);
    for (const key of world.keys) if (key !== leader) world.voter(key).host.healthChanged(1);
    world.until('another leads', () => (world.leader() ?? leader) !== leader, 2_000);
  });

  test('is established even if all voters are unhealthy', () => {
    const { world, leader } = threeVoters();
    for (const key of world.keys) world.voter(key).host.healthChanged(8);
    world.run(500);
    world.kill(leader);
    world.untilLeader(5_000);
  });

  test('notifies its watchers', () => {
    const { world, leader, others } = threeVoters();
    const notices: string[] = [];
    const [to] = others as [string];
    world.voter(leader).host.leadership.watch({ lost: (reason) => notices.push(`lost: ${reason}`) });
    const cancel = world.voter(to).host.leadership.watch({
      elected: (fence) => notices.push(`elected ${fence >> 40n}`),
      changed: ({ term }) => notices.push(`changed ${term}`),
    });
    assert.equal(untilEnded(world, transfer(world, leader, to)), 'ok');
    world.run(100);
    cancel();
    world.kill(to);
    assert.deepEqual(notices, ['changed 2', 'lost: another voter has a higher term', 'changed 2', 'elected 2']);
  });

  test('ends when the disk fails, and no entry is lost when it works again', () => {
    const { world, leader } = threeVoters();
    world.voter(leader).diskFull = true;
    const open = world.propose(leader, 'a');
    assert.equal(untilEnded(world, open), 'NETWORK_TIMEOUT');
    const next = world.untilLeader(2_000).self.name;
    assert.notEqual(next, leader);
    assert.equal(untilEnded(world, world.propose(next, 'b')), 'ok');
    world.voter(leader).diskFull = false;
    world.until('it has caught up', () => world.voter(leader).stateMachine.items.includes('b'), 2_000);
    world.until('all are the same', () => appliedEverywhere(world, world.voter(next).stateMachine.items), 500);
  });
});

describe('invalid input', () => {
  test('changes no state', () => {
    const { world, leader, others } = threeVoters();
    const from = world.voter(others[0] as string).self;
    const { host } = world.voter(leader);
    const before = host.view();
    const about = { group: 'g', term: 2 ** 24, lastIndex: 99, lastTerm: 9 } as const;
    host.onMessage(from, { kind: 'requestVote', ...about, releasedTerm: undefined, releasedRound: undefined });
    host.onMessage(from, { kind: 'preVote', ...about, group: 'other', term: 2 });
    host.onMessage(from, { kind: 'timeoutNow', group: 'g', term: 1, round: 1 });
    const append = {
      kind: 'appendEntries',
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

  test('options that contradict each other are rejected', () => {
    const world = new ConsensusTestCluster();
    world.options = { ...defaultConsensusOptions, heartbeatMs: 400 };
    assert.throws(
      () => world.start('n1'),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });
});
