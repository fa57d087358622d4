/**
 * The pull monitor: scenarios HE-1 and HE-2 of seed 004, what counts as a miss, and a comparison with a naive model.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { heartbeatTiming } from './heartbeat-timing.ts';
import { PullMonitor } from './pull-monitor.ts';

const timing = heartbeatTiming(5_000);

/** A monitor and its target on one timeline; prints each probe and each death. */
class MonitorHarness {
  readonly lines: string[] = [];
  readonly warnings: string[] = [];
  readonly monitor: PullMonitor;
  nowMs = 0;
  replies: 'at once' | 'refused' | 'never' = 'at once';
  onDead: () => void = () => {};

  constructor() {
    this.monitor = new PullMonitor(timing, {
      sendProbe: (seq) => this.#onProbe(seq),
      onDead: () => {
        this.lines.push(`${this.nowMs} dead after ${this.monitor.misses} misses`);
        this.onDead();
      },
      log: (level, message) => (level === 'warn' || level === 'error') && this.warnings.push(message),
    });
  }

  start(): void {
    this.monitor.start(this.nowMs);
  }

  runTo(untilMs: number): void {
    for (;;) {
      const { nextMs } = this.monitor;
      if (nextMs === undefined || nextMs > untilMs) break;
      this.nowMs = nextMs;
      this.monitor.expire(nextMs);
    }
    this.nowMs = untilMs;
  }

  #onProbe(seq: number): void {
    this.lines.push(`${this.nowMs} probe ${seq}, ${this.monitor.misses} missed`);
    if (this.replies === 'at once') this.monitor.onReply(this.nowMs, seq);
    if (this.replies === 'refused') this.monitor.onFailure(seq);
  }
}

describe('the pull monitor', () => {
  it('HE-1: probes every interval and counts no miss while the replies arrive', () => {
    const harness = new MonitorHarness();
    harness.start();
    harness.runTo(16_000);
    assert.deepEqual(harness.lines, [
      '0 probe 1, 0 missed',
      '5000 probe 2, 0 missed',
      '10000 probe 3, 0 missed',
      '15000 probe 4, 0 missed',
    ]);
    assert.equal(harness.monitor.misses, 0);
    assert.equal(harness.monitor.timeSinceLastReplyMs(16_000), 1_000);
  });

  it('HE-2: reports a stopped leader dead at the third miss, about 15 s later, once, and stops', () => {
    const harness = new MonitorHarness();
    harness.start();
    harness.runTo(5_000);
    harness.replies = 'refused';
    harness.runTo(60_000);
    assert.deepEqual(harness.lines.slice(2), [
      '10000 probe 3, 0 missed',
      '15000 probe 4, 1 missed',
      '20000 probe 5, 2 missed',
      '20000 dead after 3 misses',
    ]);
    assert.equal(harness.monitor.running, false);
    assert.equal(harness.monitor.nextMs, undefined);
    harness.monitor.expire(70_000);
    assert.equal(harness.lines.length, 6);
  });

  it('HE-2: reports a leader that does not even refuse dead when the third reply is missing', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    harness.runTo(60_000);
    assert.deepEqual(harness.lines, [
      '0 probe 1, 0 missed',
      '5000 probe 2, 1 missed',
      '10000 probe 3, 2 missed',
      '15000 dead after 3 misses',
    ]);
  });

  it('accepts only the reply to the current probe', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    harness.runTo(5_000);
    assert.equal(harness.monitor.onReply(5_001, 1), false);
    assert.equal(harness.monitor.misses, 1, 'the late reply resets nothing');
    assert.equal(harness.monitor.onReply(5_002, 3), false, 'no probe has this number yet');
    assert.equal(harness.monitor.onReply(5_003, 2), true);
    assert.equal(harness.monitor.misses, 0);
    assert.equal(harness.monitor.onReply(5_004, 2), false, 'once');
  });

  it('counts one miss per probe, however it failed', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    harness.monitor.onFailure(1);
    harness.monitor.onFailure(1);
    assert.equal(harness.monitor.misses, 1);
    harness.runTo(5_000);
    assert.equal(harness.monitor.misses, 1);
  });

  it('counts one miss for a pause of many intervals', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    harness.monitor.expire(100_000);
    assert.equal(harness.monitor.misses, 1);
    assert.equal(harness.monitor.nextMs, 105_000);
  });

  it('warns when it is started twice, and returns -1 before the first reply', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    assert.equal(harness.monitor.start(1), false);
    assert.deepEqual(harness.warnings, ['the pull monitor is already running']);
    assert.equal(harness.monitor.timeSinceLastReplyMs(1), -1);
    assert.equal(harness.lines.length, 1);
  });

  it('neither probes nor accepts a reply after stop', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.start();
    harness.monitor.stop();
    harness.runTo(60_000);
    assert.equal(harness.monitor.onReply(60_000, 1), false);
    assert.deepEqual(harness.lines, ['0 probe 1, 0 missed']);
  });

  it('survives a callback that throws, and counts it', () => {
    const harness = new MonitorHarness();
    harness.replies = 'refused';
    harness.onDead = () => {
      throw new Error('no');
    };
    harness.start();
    harness.runTo(60_000);
    assert.equal(harness.monitor.callbackErrors, 1);
  });

  it('can be started again by its callback, and ignores replies to the earlier run', () => {
    const harness = new MonitorHarness();
    harness.replies = 'never';
    harness.onDead = () => harness.start();
    harness.start();
    harness.runTo(15_000);
    assert.deepEqual(harness.lines.slice(3), ['15000 dead after 3 misses', '15000 probe 4, 0 missed']);
    assert.equal(harness.monitor.onReply(15_001, 3), false);
    assert.equal(harness.monitor.onReply(15_001, 4), true);
    assert.equal(harness.monitor.nextMs, 20_000);
  });

  it('probes at once on demand, unless a reply is due', () => {
    const harness = new MonitorHarness();
    harness.start();
    harness.nowMs = 100;
    harness.monitor.probeNow(100);
    harness.replies = 'never';
    harness.monitor.probeNow(100);
    harness.monitor.probeNow(100);
    assert.deepEqual(harness.lines, ['0 probe 1, 0 missed', '100 probe 2, 0 missed', '100 probe 3, 0 missed']);
    assert.equal(harness.monitor.nextMs, 5_100);
  });

  it('reports a death at the first three misses in a row of any history, and never otherwise', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('at once' as const, 'refused' as const, 'never' as const), { maxLength: 40 }),
        (history) => {
          const harness = new MonitorHarness();
          for (const [probe, replies] of history.entries()) {
            harness.replies = replies;
            if (probe === 0) harness.start();
            else harness.runTo(probe * timing.intervalMs);
          }
          // The last probe has its whole interval.
          harness.replies = 'at once';
          harness.runTo(history.length * timing.intervalMs);
          const bits = history.map((replies) => (replies === 'at once' ? '.' : 'x')).join('');
          const deaths = harness.lines.filter((line) => line.includes('dead'));
          assert.equal(deaths.length, bits.includes('xxx') ? 1 : 0, bits);
          assert.equal(harness.monitor.running, history.length > 0 && !bits.includes('xxx'), bits);
          const third = bits.indexOf('xxx') + 2;
          if (deaths.length === 1)
            assert.equal(harness.lines.filter((line) => line.includes('probe')).length, third + 1, bits);
        },
      ),
    );
  });
});
