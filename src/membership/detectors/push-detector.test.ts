/** The push detector: scenarios HE-3 to HE-8 of seed 004 and the gaps H1 to H9 that a review of them found. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type NodeId, nodeIdFrom } from '../../base/ids.ts';
import { heartbeatTiming } from './heartbeat-timing.ts';
import { type DetectedDeath, type MemberLife, PushDetector } from './push-detector.ts';

const timing = heartbeatTiming(5_000);
const firstLife: MemberLife = { generation: 1, incarnation: 0 };

function idOf(number: number): NodeId {
  return nodeIdFrom(new Uint8Array(16).fill(number));
}

const [w1, w2, w3] = [idOf(1), idOf(2), idOf(3)];

/** A detector that takes every id for a member except `nonMembers`, and its votes and callbacks in order. */
function startDetector({ workersMax = 100, onDead = (_death: DetectedDeath) => {} } = {}) {
  const nonMembers = new Set<NodeId>();
  const calls: string[] = [];
  const deaths: DetectedDeath[] = [];
  const warnings: string[] = [];
  const detector = new PushDetector(timing, workersMax, {
    isMember: (id) => !nonMembers.has(id),
    voteDead: (death) => {
      calls.push(`vote ${death.id === w1 ? 'w1' : 'another'}`);
      nonMembers.add(death.id);
    },
    onDead: (death) => {
      calls.push(`dead ${death.id === w1 ? 'w1' : 'another'}`);
      deaths.push(death);
      onDead(death);
    },
    log: (level, message) => (level === 'warn' || level === 'error') && warnings.push(message),
  });
  detector.start(0);
  return { detector, nonMembers, calls, deaths, warnings };
}

/** Lets time pass up to `untilMs`, and wakes the detector exactly when it requests it. */
function run(detector: PushDetector, untilMs: number): void {
  for (let nextMs = detector.nextMs; nextMs !== undefined && nextMs <= untilMs; nextMs = detector.nextMs) {
    detector.expire(nextMs);
  }
}

describe('heartbeat times', () => {
  it('H2: leave room for three lost pings, and for a change of manager before the timeout', () => {
    assert.equal(timing.timeoutMs, 15_000);
    assert.ok(timing.pingIntervalMs <= timing.timeoutMs / 4);
    assert.ok(4 * timing.pingIntervalMs < timing.timeoutMs, 'the fourth ping is early enough');
    assert.ok(
      (timing.missesMax + 1) * timing.pingIntervalMs < timing.timeoutMs,
      'the worker changes its manager first',
    );
    assert.ok(timing.graceMs > timing.timeoutMs);
  });
});

describe('the push detector', () => {
  it('HE-3: registers a worker at its first ping, and counts it', () => {
    const { detector } = startDetector();
    assert.equal(detector.monitoredCount, 0);
    assert.equal(detector.ping(10, w1, firstLife), 'registered');
    assert.equal(detector.ping(20, w1, firstLife), 'renewed');
    assert.equal(detector.ping(20, w2, firstLife), 'registered');
    assert.equal(detector.monitoredCount, 2);
    assert.equal(detector.isMonitored(w2), true);
  });

  it('HE-4 and H1: declares a silent worker dead exactly at its deadline, once, membership first', () => {
    const { detector, calls, deaths } = startDetector();
    detector.ping(1_234, w1, firstLife);
    for (let nowMs = 1_000; nowMs <= 40_000; nowMs += 3_000) {
      run(detector, nowMs);
      detector.ping(nowMs, w2, firstLife);
    }
    assert.deepEqual(calls, ['vote w1', 'dead w1']);
    assert.deepEqual(deaths, [{ id: w1, ...firstLife, reason: 'silent', silentMs: 15_000, hasPinged: true }]);
    assert.equal(detector.isMonitored(w1), false);
    assert.equal(detector.monitoredCount, 1);
  });

  it('H1: waits the whole timeout and not longer', () => {
    const { detector, deaths } = startDetector();
    detector.ping(1_234, w1, firstLife);
    assert.equal(detector.nextMs, 16_234);
    detector.expire(16_233);
    assert.deepEqual(deaths, []);
    detector.expire(16_234);
    assert.equal(deaths.length, 1);
  });

  it('HE-5: does not call back for a worker that was removed', () => {
    const { detector, calls } = startDetector();
    detector.ping(0, w1, firstLife);
    assert.equal(detector.removeWorker(w1), true);
    assert.equal(detector.removeWorker(w1), false);
    assert.equal(detector.monitoredCount, 0);
    assert.equal(detector.nextMs, undefined);
    detector.expire(100_000);
    assert.deepEqual(calls, []);
  });

  it('HE-6: warns when it is started twice, and keeps its workers', () => {
    const { detector, warnings } = startDetector();
    detector.ping(0, w1, firstLife);
    assert.equal(detector.start(1), false);
    assert.deepEqual(warnings, ['the push detector is already running']);
    assert.equal(detector.running, true);
    assert.equal(detector.monitoredCount, 1);
  });

  it('HE-7: returns -1 for an unknown worker, and the time since the last ping otherwise', () => {
    const { detector } = startDetector();
    assert.equal(detector.timeSinceLastHeartbeatMs(5, w1), -1);
    detector.adopt(5, [{ id: w2, ...firstLife }]);
    assert.equal(detector.timeSinceLastHeartbeatMs(9, w2), -1);
    detector.ping(10, w1, firstLife);
    assert.equal(detector.timeSinceLastHeartbeatMs(25, w1), 15);
    detector.expire(15_010);
    assert.equal(detector.timeSinceLastHeartbeatMs(15_010, w1), -1);
  });

  it('HE-8: survives a callback that throws, and counts it', () => {
    const { detector, deaths, warnings } = startDetector({
      onDead: () => {
        throw new Error('no');
      },
    });
    detector.ping(0, w1, firstLife);
    detector.ping(0, w2, firstLife);
    detector.ping(1_000, w3, firstLife);
    detector.expire(15_000);
    detector.expire(16_000);
    assert.equal(deaths.length, 3);
    assert.equal(detector.callbackErrors, 3);
    assert.equal(detector.running, true);
    assert.ok(warnings.includes('the callback of the push detector threw'));
  });

  it('H8: does not declare dead a worker that an earlier callback of the same moment removed or pinged', () => {
    const { detector, deaths } = startDetector({
      onDead: () => {
        detector.removeWorker(w2);
        detector.ping(15_000, w3, firstLife);
      },
    });
    for (const id of [w1, w2, w3]) detector.ping(0, id, firstLife);
    detector.expire(15_000);
    assert.deepEqual(
      deaths.map(({ id }) => id),
      [w1],
    );
    assert.equal(detector.nextMs, 30_000);
  });

  it('declares no worker dead while it is stopped, and starts without workers', () => {
    const { detector, calls } = startDetector();
    detector.ping(0, w1, firstLife);
    detector.stop();
    assert.equal(detector.running, false);
    assert.equal(detector.nextMs, undefined);
    assert.equal(detector.ping(5, w1, firstLife), 'stopped');
    detector.expire(100_000);
    detector.start(100_000);
    detector.expire(100_000);
    assert.deepEqual(calls, []);
    assert.equal(detector.ping(100_000, w1, firstLife), 'registered');
  });

  it('H4: detects members that died during a change of manager, after the grace', () => {
    const { detector, deaths } = startDetector();
    detector.stop();
    detector.start(
      50_000,
      [w1, w2].map((id) => ({ id, generation: 1, incarnation: 0 })),
    );
    assert.equal(detector.monitoredCount, 2);
    run(detector, 70_000);
    assert.equal(detector.ping(70_000, w2, firstLife), 'registered');
    assert.equal(detector.ping(79_000, w2, firstLife), 'renewed');
    run(detector, 79_999);
    assert.deepEqual(deaths, []);
    run(detector, 80_000);
    assert.deepEqual(deaths, [{ id: w1, ...firstLife, reason: 'silent', silentMs: timing.graceMs, hasPinged: false }]);
  });

  it('H5: watches members only', () => {
    const { detector, nonMembers } = startDetector();
    nonMembers.add(w1);
    assert.equal(detector.ping(0, w1, firstLife), 'unknown');
    detector.adopt(0, [{ id: w1, ...firstLife }]);
    assert.equal(detector.monitoredCount, 0);
  });

  it('H6: keeps a dead life dead, and registers a later one', () => {
    const { detector, nonMembers, deaths } = startDetector();
    detector.ping(0, w1, { generation: 1, incarnation: 4 });
    run(detector, 15_000);
    nonMembers.clear();
    assert.equal(detector.ping(15_001, w1, { generation: 1, incarnation: 4 }), 'dead');
    assert.equal(detector.ping(15_001, w1, { generation: 1, incarnation: 3 }), 'dead');
    detector.adopt(15_001, [{ id: w1, generation: 1, incarnation: 4 }]);
    assert.equal(detector.monitoredCount, 0);
    detector.stop();
    detector.start(15_002);
    assert.equal(detector.ping(15_003, w1, { generation: 1, incarnation: 4 }), 'dead');
    assert.equal(detector.ping(15_003, w1, { generation: 1, incarnation: 5 }), 'registered');
    assert.equal(deaths.length, 1);
  });

  it('ignores a ping of a lower incarnation or generation', () => {
    const { detector, deaths } = startDetector();
    detector.ping(0, w1, { generation: 2, incarnation: 5 });
    assert.equal(detector.ping(10_000, w1, { generation: 2, incarnation: 4 }), 'stale');
    assert.equal(detector.ping(10_000, w1, { generation: 1, incarnation: 9 }), 'stale');
    run(detector, 15_000);
    assert.equal(deaths.length, 1);
  });

  it('reports the end of the old life when a worker restarts before its deadline', () => {
    const { detector, calls, deaths } = startDetector();
    detector.ping(0, w1, { generation: 1, incarnation: 2 });
    assert.equal(detector.ping(4_000, w1, { generation: 2, incarnation: 0 }), 'registered');
    assert.deepEqual(deaths, [
      { id: w1, generation: 1, incarnation: 2, reason: 'restarted', silentMs: 4_000, hasPinged: true },
    ]);
    assert.deepEqual(calls, ['dead w1'], 'membership knows by the new generation');
    assert.equal(detector.ping(4_001, w1, { generation: 1, incarnation: 2 }), 'stale');
    run(detector, 18_999);
    assert.equal(deaths.length, 1);
  });

  it('H9: tracks which directions work', () => {
    const { detector } = startDetector();
    assert.deepEqual(detector.directions(0, w1), { heardByUs: false, hearsUs: false });
    detector.ping(0, w1, firstLife, false);
    assert.deepEqual(detector.directions(0, w1), { heardByUs: true, hearsUs: false });
    detector.ping(3_000, w1, firstLife, true);
    assert.deepEqual(detector.directions(3_000, w1), { heardByUs: true, hearsUs: true });
    for (let nowMs = 6_000; nowMs <= 18_000; nowMs += 3_000) detector.ping(nowMs, w1, firstLife, false);
    assert.deepEqual(detector.directions(18_000, w1), { heardByUs: true, hearsUs: false });
  });

  it('refuses workers beyond its limit', () => {
    const { detector } = startDetector({ workersMax: 2 });
    detector.ping(0, w1, firstLife);
    detector.ping(0, w2, firstLife);
    assert.equal(detector.isFull, true);
    assert.equal(detector.ping(0, w3, firstLife), 'full');
    assert.equal(detector.ping(1, w1, firstLife), 'renewed');
    assert.equal(detector.ping(1, w1, { generation: 2, incarnation: 0 }), 'registered', 'a restart needs no more room');
    detector.removeWorker(w2);
    assert.equal(detector.ping(2, w3, firstLife), 'registered');
  });

  it('extends all deadlines by a pause of its own', () => {
    const { detector, deaths } = startDetector();
    detector.ping(0, w1, firstLife);
    detector.discountPause(60_000, 50_000);
    detector.expire(60_000);
    assert.deepEqual(deaths, []);
    detector.expire(65_000);
    assert.equal(deaths.length, 1);
  });
});
