import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { type Outcome, failure, success } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';
import { Timeline } from '../simulation/engine/timeline.ts';
import { PendingCalls } from './pending-calls.ts';

function setUp(): {
  timeline: Timeline;
  calls: PendingCalls;
  ended: string[];
  open: (name: string, ms: number) => number;
} {
  const timeline = new Timeline();
  const clock: Clock = {
    nowMs: () => timeline.nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
  const calls = new PendingCalls(clock);
  const ended: string[] = [];
  const open = (name: string, ms: number): number =>
    calls.open(ms, (outcome: Outcome<string>) => {
      ended.push(`${timeline.nowMs} ${name} ${outcome.ok ? outcome.value : outcome.error.code}`);
    });
  return { timeline, calls, ended, open };
}

describe('pending calls', () => {
  test('end once, with the given outcome', () => {
    const { calls, ended, open } = setUp();
    const call = open('a', 100);
    calls.end(call, success('x'));
    calls.end(call, success('y'));
    calls.end(99, success('z'));
    assert.deepEqual(ended, ['0 a x']);
  });

  test('end at their deadlines in any order', () => {
    const { timeline, ended, open } = setUp();
    open('late', 300);
    open('soon', 50);
    open('next', 51);
    open('now', 0);
    timeline.runUntil(1_000);
    assert.deepEqual(ended, ['0 now DEADLINE', '50 soon DEADLINE', '52 next DEADLINE', '300 late DEADLINE']);
  });

  test('call back after a deferred request, not during it', () => {
    const { timeline, calls, ended, open } = setUp();
    calls.runDeferred(() => {
      calls.end(open('a', 10), failure('NOT_LEADER'));
      calls.end(open('b', 10), failure('CAPACITY'));
      assert.deepEqual(ended, []);
    });
    assert.deepEqual(ended, []);
    timeline.runUntil(0);
    assert.deepEqual(ended, ['0 a NOT_LEADER', '0 b CAPACITY']);
  });

  test('leave no timer when all have ended', () => {
    const { timeline, calls, ended, open } = setUp();
    open('a', 100);
    open('b', 50);
    calls.failAll(failure('NETWORK_TIMEOUT'));
    assert.equal(timeline.pending, 0);
    assert.equal(ended.length, 2);
  });
});
