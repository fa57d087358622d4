/** Members without datagrams, seen from their manager: what it says of them to the real judge, and what it answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  identity,
  pingOf,
  PushManagerHarness,
  pushTiming,
} from '../../../test/support/membership/push-manager-harness.ts';
import { PushServer } from './push-server.ts';

function seated(settings: { workersMax?: number; membersMax?: number } = {}): PushManagerHarness {
  const seat = new PushManagerHarness('m1', settings);
  seat.push.start(0);
  return seat;
}

describe('the manager of a member without datagrams', () => {
  const w1 = identity('w1', 'worker');

  it('lets it join by its first ping, and says so to the others once', () => {
    const seat = seated();
    const ack = seat.ping(0, w1, { seq: 7 });
    assert.equal(ack.verdict, 'member');
    assert.equal(ack.seq, 7);
    seat.ping(3_000, w1);
    assert.equal(seat.stateOf(w1), 'alive 1.0');
    assert.deepEqual(seat.saw, ['w1 member.alive (it pings us)']);
    const { generation, id } = w1;
    const by = seat.self.id;
    const entry = { ...w1, watchedBy: by };
    const claim = { kind: 'join', id, generation, incarnation: 0, by, refused: false, entry };
    assert.deepEqual(seat.said, [claim]);
    assert.equal(seat.push.detector.monitoredCount, 1);
  });

  it('buries it after the timeout, once', () => {
    const seat = seated();
    seat.ping(0, w1);
    assert.deepEqual(seat.wakesMs, [15_000]);
    seat.push.expire(14_000);
    assert.equal(seat.stateOf(w1), 'alive 1.0');
    seat.push.expire(15_000);
    seat.push.expire(60_000);
    assert.equal(seat.stateOf(w1), 'dead 1.0');
    assert.deepEqual(seat.saw.slice(1), ['w1 member.dead (no heartbeat for 15000 ms)']);
    assert.deepEqual(seat.wakesMs, [15_000]);
  });

  it('asks for one wake at a time, and for the next one when it comes', () => {
    const seat = seated();
    seat.ping(0, w1);
    for (let nowMs = 3_000; nowMs <= 12_000; nowMs += 3_000) seat.ping(nowMs, w1);
    seat.ping(12_000, identity('w2', 'worker'));
    assert.deepEqual(seat.wakesMs, [15_000]);
    seat.push.expire(15_000);
    assert.deepEqual(seat.wakesMs, [15_000, 27_000]);
    seat.push.expire(15_000);
    assert.deepEqual(seat.wakesMs, [15_000, 27_000]);
  });

  it('H6: does not take back a buried incarnation, tells it so, and welcomes the next one', () => {
    const seat = seated();
    seat.ping(0, w1, { incarnation: 4 });
    seat.push.expire(15_000);
    const late = seat.ping(16_000, w1, { incarnation: 4 });
    assert.deepEqual([late.verdict, late.known], ['accused', 4]);
    assert.equal(seat.stateOf(w1), 'dead 1.4');
    assert.equal(seat.push.detector.monitoredCount, 0);
    assert.equal(seat.ping(16_001, w1, { incarnation: 5 }).verdict, 'member');
    assert.equal(seat.stateOf(w1), 'alive 1.5');
    assert.equal(seat.push.detector.monitoredCount, 1);
  });

  it('H10: only votes: a worker that another manager hears under a higher incarnation is not buried', () => {
    const seat = seated();
    seat.ping(0, w1);
    const { id, generation } = w1;
    const by = identity('m2', 'manager').id;
    seat.receiveClaim({ kind: 'alive', id, generation, incarnation: 1, by, refused: false, entry: w1 }, 'm2 says so');
    const ack = seat.ping(0, w1);
    assert.deepEqual([ack.verdict, ack.known], ['accused', 1], 'what it pings here is old');
    seat.push.expire(15_000);
    assert.equal(seat.said.at(-1)?.kind, 'dead');
    assert.equal(seat.stateOf(w1), 'alive 1.1');
    assert.ok(!seat.saw.some((line) => line.includes('dead')));
  });

  it('only accuses a silent worker that others can probe', () => {
    const seat = seated();
    seat.ping(0, w1, { datagrams: true });
    seat.push.expire(15_000);
    assert.equal(seat.stateOf(w1), 'suspect 1.0');
    assert.equal(seat.ping(15_001, w1, { datagrams: true }).verdict, 'accused');
    assert.equal(seat.ping(15_002, w1, { datagrams: true, incarnation: 1 }).verdict, 'member');
    assert.equal(seat.stateOf(w1), 'alive 1.1');
  });

  it('forgets with its death that others could probe it', () => {
    const seat = seated();
    seat.ping(0, w1, { datagrams: true });
    seat.push.expire(15_000);
    const { id, generation } = w1;
    seat.receiveClaim(
      { kind: 'alive', id, generation, incarnation: 1, by: id, refused: false, entry: w1 },
      'it refutes',
    );
    seat.push.adopt(20_000, [{ id, generation, incarnation: 1 }]);
    seat.push.expire(50_000);
    assert.equal(seat.stateOf(w1), 'dead 1.1');
  });

  it('H6: remembers whom it buried even when membership has forgotten it', () => {
    const alive = { generation: 1, incarnation: 0, state: 'alive' } as const;
    const push = new PushServer(identity('m1', 'manager').id, pushTiming, 10, {
      lastKnown: () => alive,
      applyClaim: () => {},
      ackContent: () => ({ incarnation: 0, claims: [], viewHash: 0, stateVersion: undefined }),
      wake: () => {},
      log: () => {},
    });
    push.start(0);
    const verdict = (nowMs: number) => {
      const outcome = push.onPing(nowMs, w1, pingOf({}));
      return outcome.ok ? outcome.value.verdict : outcome.error.code;
    };
    assert.equal(verdict(0), 'member');
    push.expire(15_000);
    assert.equal(verdict(15_001), 'accused');
  });

  it('tells a worker that others suspect it, and goes on hearing it', () => {
    const seat = seated();
    seat.ping(0, w1);
    const { id, generation } = w1;
    const by = identity('m2', 'manager').id;
    seat.receiveClaim(
      { kind: 'suspect', id, generation, incarnation: 0, by, refused: false, entry: undefined },
      'm2 says so',
    );
    const ack = seat.ping(3_000, w1);
    assert.deepEqual([ack.verdict, ack.known], ['accused', 0]);
    assert.equal(seat.push.detector.timeSinceLastHeartbeatMs(3_000, id), 0);
  });

  it('takes a new life for the end of the old one, and tells the old one if it still speaks', () => {
    const seat = seated();
    seat.ping(0, w1, { incarnation: 3 });
    assert.equal(seat.ping(1_000, identity('w1', 'worker', 2)).verdict, 'member');
    assert.deepEqual(
      seat.saw.map((line) => line.split(' (')[0]),
      ['w1 member.alive', 'w1 member.dead', 'w1 member.alive'],
    );
    assert.equal(seat.ping(1_001, w1, { incarnation: 3 }).verdict, 'superseded');
    assert.equal(seat.stateOf(w1), 'alive 2.0');
    assert.equal(seat.push.detector.timeSinceLastHeartbeatMs(1_001, w1.id), 1);
  });

  it('H4: adopts the workers of a manager that is gone, and misses those that went with it', () => {
    const seat = seated();
    const w2 = identity('w2', 'worker');
    const by = identity('m2', 'manager').id;
    for (const worker of [w1, w2]) {
      const { id, generation } = worker;
      seat.receiveClaim(
        { kind: 'join', id, generation, incarnation: 0, by, refused: false, entry: worker },
        'm2 says so',
      );
    }
    seat.push.adopt(
      100,
      [w1, w2].map(({ id, generation }) => ({ id, generation, incarnation: 0 })),
    );
    seat.ping(20_000, w1, { incarnation: 1 });
    for (let nowMs = 22_000; nowMs <= 32_000; nowMs += 2_000) {
      for (const atMs of seat.wakesMs.filter((wakeMs) => wakeMs <= nowMs)) seat.push.expire(Math.max(atMs, nowMs));
      seat.ping(nowMs, w1, { incarnation: 1 });
    }
    assert.equal(seat.stateOf(w1), 'alive 1.1');
    assert.equal(seat.stateOf(w2), 'dead 1.0');
  });

  it('refuses with CAPACITY beyond its bound or that of membership, and vouches for nobody it does not watch', () => {
    const seat = seated({ workersMax: 1 });
    seat.ping(0, w1);
    const refused = seat.push.onPing(0, identity('w2', 'worker'), pingOf({}));
    assert.equal(refused.ok ? 'taken' : refused.error.code, 'CAPACITY');
    assert.equal(seat.stateOf(identity('w2', 'worker')), 'unknown');
    const small = seated({ membersMax: 1 });
    small.ping(0, w1);
    const crowded = small.push.onPing(0, identity('w2', 'worker'), pingOf({}));
    assert.equal(crowded.ok ? 'taken' : crowded.error.code, 'CAPACITY');
    assert.equal(small.push.detector.monitoredCount, 1);
  });

  it('takes no pings before it is started or after it was stopped', () => {
    const seat = new PushManagerHarness('m1');
    const outcome = seat.push.onPing(0, w1, pingOf({}));
    assert.equal(outcome.ok ? 'taken' : outcome.error.code, 'NOT_LEADER');
    assert.equal(seat.push.start(0), true);
    assert.equal(seat.push.start(0), false);
    seat.ping(0, w1);
    seat.push.stop();
    seat.push.expire(15_000);
    assert.equal(seat.stateOf(w1), 'alive 1.0');
  });

  it('H9: calls a worker dispatchable when both directions work', () => {
    const seat = seated();
    seat.ping(0, w1, { hearsYou: false });
    assert.equal(seat.push.isDispatchable(0, w1.id), false);
    seat.ping(10, w1, { hearsYou: true });
    assert.equal(seat.push.isDispatchable(10, w1.id), true);
    seat.push.removeWorker(w1.id);
    assert.equal(seat.push.isDispatchable(10, w1.id), false);
  });

  it('does not blame workers for a pause of its own', () => {
    const seat = seated();
    seat.ping(0, w1);
    seat.push.discountPause(40_000, 30_000);
    seat.push.expire(40_000);
    assert.equal(seat.stateOf(w1), 'alive 1.0');
    assert.equal(seat.wakesMs.at(-1), 45_000);
  });
});
