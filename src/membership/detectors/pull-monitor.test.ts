/** The pull monitor: scenarios HE-1 and HE-2 of seed 004, what counts as a miss, and a naive model. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { heartbeatTiming } from './heartbeat-timing.ts';
import { PullMonitor } from './pull-monitor.ts';

const timing = heartbeatTiming(5_000);

/** A monitor and its target on one line of time, as text: what was asked and what came of it. */
class Watch {
  readonly lines: string[] = [];
  readonly warnings: string[] = [];
  readonly monitor: PullMonitor;
  nowMs = 0;
  answers: 'at once' | 'refused' | 'never' = 'at once';
  died: () => void = () => {};

  constructor() {
    this.monitor = new PullMonitor(timing, {
      sendProbe: (seq) => this.#asked(seq),
      onDead: () => {
        this.lines.push(`${this.nowMs} dead after ${this.monitor.misses} misses`);
        this.died();
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

  #asked(seq: number): void {
    this.lines.push(`${this.nowMs} asks ${seq}, ${this.monitor.misses} missed`);
    if (this.answers === 'at once') this.monitor.answered(this.nowMs, seq);
    if (this.answers === 'refused') this.monitor.failed(seq);
  }
}

describe('the pull monitor', () => {
  it('HE-1: asks every interval and misses nothing while the answers come', () => {
    const watch = new Watch();
    watch.start();
    watch.runTo(16_000);
    assert.deepEqual(watch.lines, [
      '0 asks 1, 0 missed',
      '5000 asks 2, 0 missed',
      '10000 asks 3, 0 missed',
      '15000 asks 4, 0 missed',
    ]);
    assert.equal(watch.monitor.misses, 0);
    assert.equal(watch.monitor.timeSinceLastAnswerMs(16_000), 1_000);
  });

  it('HE-2: finds a stopped leader dead at the third miss, about 15 s later, once, and stops', () => {
    const watch = new Watch();
    watch.start();
    watch.runTo(5_000);
    watch.answers = 'refused';
    watch.runTo(60_000);
    assert.deepEqual(watch.lines.slice(2), [
      '10000 asks 3, 0 missed',
      '15000 asks 4, 1 missed',
      '20000 asks 5, 2 missed',
      '20000 dead after 3 misses',
    ]);
    assert.equal(watch.monitor.running, false);
    assert.equal(watch.monitor.nextMs, undefined);
    watch.monitor.expire(70_000);
    assert.equal(watch.lines.length, 6);
  });

  it('HE-2: does the same when the leader does not even refuse, when the third answer did not come', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    watch.runTo(60_000);
    assert.deepEqual(watch.lines, [
      '0 asks 1, 0 missed',
      '5000 asks 2, 1 missed',
      '10000 asks 3, 2 missed',
      '15000 dead after 3 misses',
    ]);
  });

  it('takes only the answer to the present question', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    watch.runTo(5_000);
    assert.equal(watch.monitor.answered(5_001, 1), false);
    assert.equal(watch.monitor.misses, 1, 'the late answer resets nothing');
    assert.equal(watch.monitor.answered(5_002, 3), false, 'nobody asked that yet');
    assert.equal(watch.monitor.answered(5_003, 2), true);
    assert.equal(watch.monitor.misses, 0);
    assert.equal(watch.monitor.answered(5_004, 2), false, 'once');
  });

  it('counts one miss for one question, however it failed', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    watch.monitor.failed(1);
    watch.monitor.failed(1);
    assert.equal(watch.monitor.misses, 1);
    watch.runTo(5_000);
    assert.equal(watch.monitor.misses, 1);
  });

  it('counts one miss for a sleep that lasted many intervals', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    watch.monitor.expire(100_000);
    assert.equal(watch.monitor.misses, 1);
    assert.equal(watch.monitor.nextMs, 105_000);
  });

  it('warns when it is started twice, and says -1 before the first answer', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    assert.equal(watch.monitor.start(1), false);
    assert.deepEqual(watch.warnings, ['the pull monitor is already running']);
    assert.equal(watch.monitor.timeSinceLastAnswerMs(1), -1);
    assert.equal(watch.lines.length, 1);
  });

  it('asks nothing after stop, and takes no answer', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.start();
    watch.monitor.stop();
    watch.runTo(60_000);
    assert.equal(watch.monitor.answered(60_000, 1), false);
    assert.deepEqual(watch.lines, ['0 asks 1, 0 missed']);
  });

  it('survives a callback that throws, and counts it', () => {
    const watch = new Watch();
    watch.answers = 'refused';
    watch.died = () => {
      throw new Error('no');
    };
    watch.start();
    watch.runTo(60_000);
    assert.equal(watch.monitor.callbackErrors, 1);
  });

  it('may be started again by its verdict; answers to the earlier watch do not fit', () => {
    const watch = new Watch();
    watch.answers = 'never';
    watch.died = () => watch.start();
    watch.start();
    watch.runTo(15_000);
    assert.deepEqual(watch.lines.slice(3), ['15000 dead after 3 misses', '15000 asks 4, 0 missed']);
    assert.equal(watch.monitor.answered(15_001, 3), false);
    assert.equal(watch.monitor.answered(15_001, 4), true);
    assert.equal(watch.monitor.nextMs, 20_000);
  });

  it('can be hurried when no answer is due', () => {
    const watch = new Watch();
    watch.start();
    watch.nowMs = 100;
    watch.monitor.probeNow(100);
    watch.answers = 'never';
    watch.monitor.probeNow(100);
    watch.monitor.probeNow(100);
    assert.deepEqual(watch.lines, ['0 asks 1, 0 missed', '100 asks 2, 0 missed', '100 asks 3, 0 missed']);
    assert.equal(watch.monitor.nextMs, 5_100);
  });

  it('is dead at the first three misses in a row of any history, and never otherwise', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('at once' as const, 'refused' as const, 'never' as const), { maxLength: 40 }),
        (history) => {
          const watch = new Watch();
          for (const [question, answers] of history.entries()) {
            watch.answers = answers;
            if (question === 0) watch.start();
            else watch.runTo(question * timing.intervalMs);
          }
          // The last question has its whole interval.
          watch.answers = 'at once';
          watch.runTo(history.length * timing.intervalMs);
          const bits = history.map((answers) => (answers === 'at once' ? '.' : 'x')).join('');
          const deaths = watch.lines.filter((line) => line.includes('dead'));
          assert.equal(deaths.length, bits.includes('xxx') ? 1 : 0, bits);
          assert.equal(watch.monitor.running, history.length > 0 && !bits.includes('xxx'), bits);
          const third = bits.indexOf('xxx') + 2;
          if (deaths.length === 1)
            assert.equal(watch.lines.filter((line) => line.includes('asks')).length, third + 1, bits);
        },
      ),
    );
  });
});
