import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { Timeline } from '../../simulation/engine/timeline.ts';
import { scopedClock } from './scoped-clock.ts';

test('a timer of a scoped clock runs once, can be cancelled, and ends with its owner', () => {
  const timeline = new Timeline();
  const pending = new Set<() => void>();
  const inner: Clock = {
    nowMs: () => timeline.nowMs,
    wallMs: () => 0,
    schedule: (delayMs, run) => {
      const entry = (): void => {
        if (pending.delete(entry)) run();
      };
      pending.add(entry);
      timeline.at(timeline.nowMs + delayMs, entry);
      return () => pending.delete(entry);
    },
  };
  const { clock, close } = scopedClock(inner);
  const ran: string[] = [];
  clock.schedule(10, () => ran.push('first'));
  const cancel = clock.schedule(10, () => ran.push('cancelled'));
  clock.schedule(30, () => ran.push('late'));
  cancel();
  timeline.runUntil(20);
  assert.deepEqual(ran, ['first']);
  close();
  assert.equal(pending.size, 0);
  clock.schedule(1, () => ran.push('after the end'));
  assert.equal(pending.size, 0);
  timeline.runUntil(100);
  assert.deepEqual(ran, ['first']);
});
