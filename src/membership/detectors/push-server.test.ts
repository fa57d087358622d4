/** The push server with the real suspicion policy: its claims about members without datagrams, and its acks. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  identity,
  pingOf,
  PushManagerHarness,
  pushTiming,
} from '../../../test/support/membership/push-manager-harness.ts';
import { PushServer } from './push-server.ts';

function startedManager(settings: { workersMax?: number; membersMax?: number } = {}): PushManagerHarness {
  const manager = new PushManagerHarness('m1', settings);
  manager.server.start(0);
  return manager;
}

describe('the push server', () => {
  const w1 = identity('w1', 'worker');

  it('claims a join at the first ping of a member, once', () => {
    const manager = startedManager();
    const ack = manager.ping(0, w1, { seq: 7 });
    assert.equal(ack.verdict, 'member');
    assert.equal(ack.seq, 7);
    manager.ping(3_000, w1);
    assert.equal(manager.stateOf(w1), 'alive 1.0');
    assert.deepEqual(manager.events, ['w1 member.alive (it pings this node)']);
    const { generation, id } = w1;
    const by = manager.self.id;
    const entry = { ...w1, watchedBy: by };
    const claim = { kind: 'join', id, generation, incarnation: 0, by, refused: false, entry };
    assert.deepEqual(manager.claims, [claim]);
    assert.equal(manager.server.detector.monitoredCount, 1);
  });

  it('declares a silent member dead after the timeout, once', () => {
    const manager = startedManager();
    manager.ping(0, w1);
    assert.deepEqual(manager.wakesMs, [15_000]);
    manager.server.expire(14_000);
    assert.equal(manager.stateOf(w1), 'alive 1.0');
    manager.server.expire(15_000);
    manager.server.expire(60_000);
    assert.equal(manager.stateOf(w1), 'dead 1.0');
    assert.deepEqual(manager.events.slice(1), ['w1 member.dead (no heartbeat for 15000 ms)']);
    assert.deepEqual(manager.wakesMs, [15_000]);
  });

  it('requests one wake-up at a time, and the next one when it comes', () => {
    const manager = startedManager();
    manager.ping(0, w1);
    for (let nowMs = 3_000; nowMs <= 12_000; nowMs += 3_000) manager.ping(nowMs, w1);
    manager.ping(12_000, identity('w2', 'worker'));
    assert.deepEqual(manager.wakesMs, [15_000]);
    manager.server.expire(15_000);
    assert.deepEqual(manager.wakesMs, [15_000, 27_000]);
    manager.server.expire(15_000);
    assert.deepEqual(manager.wakesMs, [15_000, 27_000]);
  });

  it('H6: replies `accused` to a dead incarnation, and accepts the next one', () => {
    const manager = startedManager();
    manager.ping(0, w1, { incarnation: 4 });
    manager.server.expire(15_000);
    const late = manager.ping(16_000, w1, { incarnation: 4 });
    assert.deepEqual([late.verdict, late.known], ['accused', 4]);
    assert.equal(manager.stateOf(w1), 'dead 1.4');
    assert.equal(manager.server.detector.monitoredCount, 0);
    assert.equal(manager.ping(16_001, w1, { incarnation: 5 }).verdict, 'member');
    assert.equal(manager.stateOf(w1), 'alive 1.5');
    assert.equal(manager.server.detector.monitoredCount, 1);
  });

  it('H10: only votes: a worker that pings another manager with a higher incarnation stays alive', () => {
    const manager = startedManager();
    manager.ping(0, w1);
    const { id, generation } = w1;
    const by = identity('m2', 'manager').id;
    manager.receiveClaim(
      { kind: 'alive', id, generation, incarnation: 1, by, refused: false, entry: w1 },
      'reported by m2',
    );
    const ack = manager.ping(0, w1);
    assert.deepEqual([ack.verdict, ack.known], ['accused', 1], 'the pinged incarnation is stale');
    manager.server.expire(15_000);
    assert.equal(manager.claims.at(-1)?.kind, 'dead');
    assert.equal(manager.stateOf(w1), 'alive 1.1');
    assert.ok(!manager.events.some((line) => line.includes('dead')));
  });

  it('only suspects a silent worker that others can probe', () => {
    const manager = startedManager();
    manager.ping(0, w1, { datagrams: true });
    manager.server.expire(15_000);
    assert.equal(manager.stateOf(w1), 'suspect 1.0');
    assert.equal(manager.ping(15_001, w1, { datagrams: true }).verdict, 'accused');
    assert.equal(manager.ping(15_002, w1, { datagrams: true, incarnation: 1 }).verdict, 'member');
    assert.equal(manager.stateOf(w1), 'alive 1.1');
  });

  it('forgets with the death of a worker that others could probe it', () => {
    const manager = startedManager();
    manager.ping(0, w1, { datagrams: true });
    manager.server.expire(15_000);
    const { id, generation } = w1;
    manager.receiveClaim(
      { kind: 'alive', id, generation, incarnation: 1, by: id, refused: false, entry: w1 },
      'it refutes',
    );
    manager.server.adopt(20_000, [{ id, generation, incarnation: 1 }]);
    manager.server.expire(50_000);
    assert.equal(manager.stateOf(w1), 'dead 1.1');
  });

  it('H6: remembers a dead life even when membership has removed the member', () => {
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

  it('replies `accused` to a worker that others suspect, and keeps watching it', () => {
    const manager = startedManager();
    manager.ping(0, w1);
    const { id, generation } = w1;
    const by = identity('m2', 'manager').id;
    manager.receiveClaim(
      { kind: 'suspect', id, generation, incarnation: 0, by, refused: false, entry: undefined },
      'reported by m2',
    );
    const ack = manager.ping(3_000, w1);
    assert.deepEqual([ack.verdict, ack.known], ['accused', 0]);
    assert.equal(manager.server.detector.timeSinceLastHeartbeatMs(3_000, id), 0);
  });

  it('ends the old life at the ping of a new one, and replies `superseded` to the old one', () => {
    const manager = startedManager();
    manager.ping(0, w1, { incarnation: 3 });
    assert.equal(manager.ping(1_000, identity('w1', 'worker', 2)).verdict, 'member');
    assert.deepEqual(
      manager.events.map((line) => line.split(' (')[0]),
      ['w1 member.alive', 'w1 member.dead', 'w1 member.alive'],
    );
    assert.equal(manager.ping(1_001, w1, { incarnation: 3 }).verdict, 'superseded');
    assert.equal(manager.stateOf(w1), 'alive 2.0');
    assert.equal(manager.server.detector.timeSinceLastHeartbeatMs(1_001, w1.id), 1);
  });

  it('H4: adopts the workers of a dead manager, and detects those that died with it', () => {
    const manager = startedManager();
    const w2 = identity('w2', 'worker');
    const by = identity('m2', 'manager').id;
    for (const worker of [w1, w2]) {
      const { id, generation } = worker;
      manager.receiveClaim(
        { kind: 'join', id, generation, incarnation: 0, by, refused: false, entry: worker },
        'reported by m2',
      );
    }
    manager.server.adopt(
      100,
      [w1, w2].map(({ id, generation }) => ({ id, generation, incarnation: 0 })),
    );
    manager.ping(20_000, w1, { incarnation: 1 });
    for (let nowMs = 22_000; nowMs <= 32_000; nowMs += 2_000) {
      for (const atMs of manager.wakesMs.filter((wakeMs) => wakeMs <= nowMs))
        manager.server.expire(Math.max(atMs, nowMs));
      manager.ping(nowMs, w1, { incarnation: 1 });
    }
    assert.equal(manager.stateOf(w1), 'alive 1.1');
    assert.equal(manager.stateOf(w2), 'dead 1.0');
  });

  it('refuses with CAPACITY beyond its limit or that of membership, and makes no claim about the refused worker', () => {
    const manager = startedManager({ workersMax: 1 });
    manager.ping(0, w1);
    const refused = manager.server.onPing(0, identity('w2', 'worker'), pingOf({}));
    assert.equal(refused.ok ? 'accepted' : refused.error.code, 'CAPACITY');
    assert.equal(manager.stateOf(identity('w2', 'worker')), 'unknown');
    const small = startedManager({ membersMax: 1 });
    small.ping(0, w1);
    const crowded = small.server.onPing(0, identity('w2', 'worker'), pingOf({}));
    assert.equal(crowded.ok ? 'accepted' : crowded.error.code, 'CAPACITY');
    assert.equal(small.server.detector.monitoredCount, 1);
  });

  it('accepts no pings before it is started or after it was stopped', () => {
    const manager = new PushManagerHarness('m1');
    const outcome = manager.server.onPing(0, w1, pingOf({}));
    assert.equal(outcome.ok ? 'accepted' : outcome.error.code, 'NOT_LEADER');
    assert.equal(manager.server.start(0), true);
    assert.equal(manager.server.start(0), false);
    manager.ping(0, w1);
    manager.server.stop();
    manager.server.expire(15_000);
    assert.equal(manager.stateOf(w1), 'alive 1.0');
  });

  it('H9: reports a worker dispatchable when both directions work', () => {
    const manager = startedManager();
    manager.ping(0, w1, { hearsYou: false });
    assert.equal(manager.server.isDispatchable(0, w1.id), false);
    manager.ping(10, w1, { hearsYou: true });
    assert.equal(manager.server.isDispatchable(10, w1.id), true);
    manager.server.removeWorker(w1.id);
    assert.equal(manager.server.isDispatchable(10, w1.id), false);
  });

  it('extends all deadlines by a pause of its own', () => {
    const manager = startedManager();
    manager.ping(0, w1);
    manager.server.discountPause(40_000, 30_000);
    manager.server.expire(40_000);
    assert.equal(manager.stateOf(w1), 'alive 1.0');
    assert.equal(manager.wakesMs.at(-1), 45_000);
  });
});
