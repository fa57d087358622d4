/** One timer for many deadlines: each is met in time, removed ones are not, and close deadlines share a check. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { CallTimerList, type DeadlineWaiter } from './call-timer-list.ts';

type Sleeper = DeadlineWaiter & { wakeAtMs: number; readonly woken: number[] };

function setUp(): { timeline: Timeline; alarms: CallTimerList; sleeper: (wakeAtMs: number) => Sleeper } {
  const timeline = new Timeline();
  const clock: Clock = {
    nowMs: () => timeline.nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
  const alarms = new CallTimerList(clock);
  const sleeper = (wakeAtMs: number): Sleeper => {
    const woken: number[] = [];
    const onDeadline = (nowMs: number): void => {
      woken.push(nowMs);
      alarms.delete(one);
    };
    const one: Sleeper = { wakeAtMs, woken, before: undefined, after: undefined, onDeadline };
    alarms.set(one);
    return one;
  };
  return { timeline, alarms, sleeper };
}

test('a timer list calls each waiter in time, whatever their order', () => {
  const { timeline, alarms, sleeper } = setUp();
  const all = [500, 20, 300, 20, 1_000, 1_002].map(sleeper);
  assert.equal(alarms.size, 6);
  timeline.runUntil(2_000);
  for (const { wakeAtMs, woken } of all) {
    assert.equal(woken.length, 1);
    assert.ok((woken[0] as number) >= wakeAtMs && (woken[0] as number) <= wakeAtMs + 5);
  }
  assert.equal(alarms.size, 0);
});

test('a timer list does not call a waiter that was removed, even by another waiter', () => {
  const { timeline, alarms, sleeper } = setUp();
  const gone = sleeper(50);
  const ended = sleeper(100);
  const ending = sleeper(99);
  ending.onDeadline = () => {
    alarms.delete(ending);
    alarms.delete(ended);
  };
  alarms.delete(gone);
  alarms.delete(gone);
  timeline.runUntil(300);
  assert.deepEqual([gone.woken, ended.woken], [[], []]);
  assert.equal(alarms.size, 0);
});

test('a waiter may move its deadline, to earlier and to later', () => {
  const { timeline, alarms, sleeper } = setUp();
  const later = sleeper(100);
  const earlier = sleeper(1_000);
  later.wakeAtMs = 400;
  earlier.wakeAtMs = 200;
  alarms.set(earlier);
  timeline.runUntil(300);
  assert.deepEqual([later.woken.length, earlier.woken.length], [0, 1]);
  timeline.runUntil(500);
  assert.equal(later.woken.length, 1);
});

test('many close deadlines share few checks', () => {
  const { timeline, sleeper } = setUp();
  const all = Array.from({ length: 1_000 }, (_, i) => sleeper(1 + i / 100));
  timeline.runUntil(100);
  assert.ok(all.every(({ woken }) => woken.length === 1));
  assert.ok(timeline.steps <= 5, `${timeline.steps} checks`);
});
