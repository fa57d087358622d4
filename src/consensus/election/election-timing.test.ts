import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { Random } from '../../base/random.ts';
import { type ElectionRanking, electionDelayMs, leaderGoneDelayMs, electionRetryDelayMs } from './election-delay.ts';
import { LeaderFlapping } from './leader-flapping.ts';
import {
  type ConsensusOptions,
  checkConsensusOptions,
  defaultConsensusOptions,
  voterLeaseMs,
  leaderLeaseMs,
} from '../state/options.ts';
import { VoterLease } from './voter-lease.ts';
import { HeartbeatRounds } from '../replication/heartbeat-rounds.ts';

const [a, b] = ['a'.repeat(32) as NodeId, 'b'.repeat(32) as NodeId];
const leader = { id: a, generation: 3 };

describe('the voter lease', () => {
  test('lasts for its time after the leader was heard', () => {
    const voterLease = new VoterLease(700);
    assert.equal(voterLease.isBound(0), false);
    voterLease.renew(100, leader, 1, 1);
    voterLease.renew(200, leader, 1, 2);
    assert.equal(voterLease.isBound(899), true);
    assert.equal(voterLease.isBound(900), false);
  });

  test('holds after a restart, even against a released lease', () => {
    const voterLease = new VoterLease(700);
    voterLease.onRestart(50);
    assert.equal(voterLease.isBound(749, { term: 9, round: 99 }), true);
    assert.equal(voterLease.isBound(750), false);
  });

  test('ends if the leader released this lease, and only then', () => {
    const voterLease = new VoterLease(700);
    voterLease.renew(0, leader, 4, 10);
    assert.equal(voterLease.isBound(1, { term: 4, round: 10 }), false);
    assert.equal(voterLease.isBound(1, { term: 4, round: 9 }), true);
    assert.equal(voterLease.isBound(1, { term: 3, round: 10 }), true);
    voterLease.renew(2, leader, 4, 8);
    assert.equal(voterLease.isBound(3, { term: 4, round: 9 }), true);
    voterLease.renew(4, { id: b, generation: 1 }, 5, 1);
    assert.equal(voterLease.isBound(5, { term: 5, round: 1 }), false);
  });

  test('ends if the process of the leader ended, and its late messages are ignored', () => {
    const voterLease = new VoterLease(700);
    voterLease.renew(0, leader, 1, 1);
    assert.equal(voterLease.onProcessGone(1, b, 9), false);
    assert.equal(voterLease.onProcessGone(1, a, 2), false);
    assert.equal(voterLease.isBound(1), true);
    assert.equal(voterLease.onProcessGone(1, a, 3), true);
    assert.equal(voterLease.isBound(1), false);
    assert.equal(voterLease.isFromDeadProcess(2, leader), true);
    assert.equal(voterLease.isFromDeadProcess(2, { id: a, generation: 4 }), false);
    assert.equal(voterLease.isFromDeadProcess(701, leader), false);
  });
});

describe('heartbeat rounds', () => {
  test('keep their start times for a while', () => {
    const rounds = new HeartbeatRounds();
    for (let round = 1; round <= 300; round++) rounds.begin(round * 10);
    assert.equal(rounds.beganMs(300), 3_000);
    assert.equal(rounds.beganMs(45), 450);
    assert.equal(rounds.beganMs(44), undefined);
    assert.equal(rounds.beganMs(301), undefined);
    assert.equal(rounds.beganMs(0), undefined);
  });

  test('are frozen during a transfer, and earlier ones do not count afterwards', () => {
    const rounds = new HeartbeatRounds();
    rounds.begin(1);
    rounds.freeze();
    rounds.begin(2);
    assert.equal(rounds.current, 1);
    rounds.unfreeze();
    assert.equal(rounds.beganMs(1), undefined);
    rounds.begin(3);
    assert.equal(rounds.beganMs(2), 3);
  });
});

describe('leader flapping', () => {
  test('starts with four changes in a minute, increases the cooldown up to a bound, and ends by itself', () => {
    const flapping = new LeaderFlapping();
    const led = (nowMs: number, term: number): boolean => flapping.onLeader(nowMs, a, term);
    assert.deepEqual([led(0, 1), led(1_000, 2), led(2_000, 3)], [false, false, false]);
    assert.equal(flapping.cooldownRatio(2_000), 0);
    assert.equal(led(3_000, 4), true);
    assert.equal(flapping.cooldownRatio(3_000), 0.5);
    assert.equal(led(4_000, 5), false);
    assert.equal(flapping.cooldownRatio(4_000), 1);
    for (let term = 6; term < 20; term++) led(5_000, term);
    assert.equal(flapping.cooldownRatio(5_000), 2);
    assert.equal(flapping.isFlapping(64_999), true);
    assert.equal(flapping.isFlapping(65_000), false);
    assert.equal(flapping.cooldownRatio(65_000), 0);
  });

  test('ignores changes that are far apart and a leader that is heard again', () => {
    const flapping = new LeaderFlapping();
    for (let term = 1; term < 20; term++) assert.equal(flapping.onLeader(term * 20_000, a, term), false);
    for (let i = 0; i < 20; i++) assert.equal(flapping.onLeader(400_000 + i, b, 20), false);
    assert.equal(flapping.isFlapping(400_020), false);
  });
});

describe('the election delay', () => {
  const candidate: ElectionRanking = { health: 0, priority: 0, rank: 0, cooldownRatio: 0, isOnlyVoter: false };
  const worst: ElectionRanking = { health: 8, priority: 10, rank: 60, cooldownRatio: 2, isOnlyVoter: false };
  const draws = (draw: (random: Random) => number): readonly number[] => {
    const random = new Random('x');
    return Array.from({ length: 200 }, () => draw(random));
  };

  test('is between one and two timeouts for a healthy voter', () => {
    const all = draws((random) => electionDelayMs(700, candidate, random));
    assert.ok(Math.min(...all) >= 700 && Math.max(...all) < 1_400);
    assert.ok(Math.max(...all) - Math.min(...all) > 500);
  });

  test('grows with health score, priority, rank and flapping', () => {
    const same = (one: ElectionRanking): number => electionDelayMs(700, one, new Random('x'));
    for (const worse of [{ health: 5 }, { priority: 3 }, { rank: 1 }, { cooldownRatio: 0.5 }]) {
      assert.ok(same({ ...candidate, ...worse }) > same(candidate), JSON.stringify(worse));
    }
  });

  test('never forbids an election: the worst case is below 10 seconds, and shorter on a retry', () => {
    assert.ok(Math.max(...draws((random) => electionDelayMs(700, worst, random))) < 4_200);
    assert.ok(Math.max(...draws((random) => electionRetryDelayMs(700, worst, random))) < 1_300);
  });

  test('is short when the leader process ended, and fixed for a single voter', () => {
    assert.ok(Math.max(...draws((random) => leaderGoneDelayMs(700, candidate, random))) <= 140);
    assert.equal(electionDelayMs(700, { ...candidate, isOnlyVoter: true }, new Random('x')), 700);
  });
});

describe('options', () => {
  test('are valid by default, and a leader lease ends before a voter lease while clocks drift within 1.2', () => {
    checkConsensusOptions(defaultConsensusOptions);
    assert.ok(voterLeaseMs(defaultConsensusOptions) / leaderLeaseMs(defaultConsensusOptions) > 1.2 * 1.2);
  });

  const invalid: readonly Partial<ConsensusOptions>[] = [
    { heartbeatMs: 300 },
    { heartbeatMs: 0 },
    { electionTimeoutMs: NaN },
    { priority: 11 },
    { priority: -1 },
    { proposalsMax: 0 },
    { appendBytes: 10_000_000 },
  ];
  for (const patch of invalid) {
    test(`reject ${JSON.stringify(patch)}`, () => {
      assert.throws(
        () => checkConsensusOptions({ ...defaultConsensusOptions, ...patch }),
        (error) => isRemusterError(error, 'BAD_ARGUMENT'),
      );
    });
  }
});
