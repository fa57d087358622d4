/** Token bucket, backoff, pending requests, deadline timer and rejection log, with time as an argument. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Outcome } from '../../base/errors.ts';
import { dialBackoffMs } from '../../base/backoff.ts';
import { TransportCounters } from './shared/transport-counters.ts';
import { DeadlineTimer } from './connection/deadline-timer.ts';
import { PendingRequests } from './mux/pending-requests.ts';
import { RejectionLog } from './shared/rejections.ts';
import { TokenBucket } from './shared/token-bucket.ts';

test('a token bucket allows its burst at once and then its rate', () => {
  const bucket = new TokenBucket(10, 3, 0);
  assert.deepEqual([bucket.take(0), bucket.take(0), bucket.take(0), bucket.take(0)], [true, true, true, false]);
  assert.equal(bucket.take(99), false);
  assert.equal(bucket.take(100), true);
  assert.equal(bucket.take(100), false);
  assert.equal(bucket.take(1_000_000, 3), true);
  assert.equal(bucket.take(1_000_000), false);
});

test('the dial backoff doubles up to its bound, with jitter in the upper half', () => {
  assert.deepEqual(
    [1, 2, 3, 4, 50].map((n) => dialBackoffMs(n, 50, 300, 1)),
    [50, 100, 200, 300, 300],
  );
  assert.deepEqual(
    [1, 2].map((n) => dialBackoffMs(n, 50, 300, 0)),
    [25, 50],
  );
});

test('a late reply does not complete the next request in its slot', () => {
  const pending = new PendingRequests(2);
  const ended: string[] = [];
  const done = (name: string) => (outcome: Outcome<Uint8Array>) => void ended.push(`${name} ${outcome.ok}`);
  const first = pending.add(done('first'), 100);
  const second = pending.add(done('second'), 50);
  assert.equal(pending.full, true);
  assert.equal(pending.earliestMs, 50);
  assert.deepEqual(pending.due(49), []);
  assert.deepEqual(pending.due(60), [second]);
  pending.take(second)?.({ ok: true, value: new Uint8Array(0) });
  const third = pending.add(done('third'), 200);
  assert.notEqual(third, second);
  assert.equal(third & 0xffff, second & 0xffff);
  assert.equal(pending.take(second), undefined);
  assert.equal(pending.has(third), true);
  assert.deepEqual(pending.due(100), [first]);
  assert.equal(pending.earliestMs, 200);
  assert.deepEqual(ended, ['second true']);
});

test('no request id is zero, also after the sequence wraps around', () => {
  const pending = new PendingRequests(1);
  for (let i = 0; i < 70_000; i++) {
    const id = pending.add(() => undefined, 1);
    assert.notEqual(id, 0);
    pending.take(id);
  }
});

test('a deadline timer is armed for the earliest deadline', () => {
  const scheduled: { atMs: number; run: () => void; cancelled: boolean }[] = [];
  let nowMs = 0;
  const clock = {
    nowMs: () => nowMs,
    wallMs: () => 0,
    schedule(delayMs: number, run: () => void) {
      const entry = { atMs: nowMs + delayMs, run, cancelled: false };
      scheduled.push(entry);
      return () => {
        entry.cancelled = true;
      };
    },
  };
  let next = Infinity;
  const timer = new DeadlineTimer(clock, () => next);
  timer.arm(100);
  timer.arm(200);
  assert.equal(scheduled.length, 1);
  timer.arm(50);
  assert.deepEqual(
    scheduled.map(({ atMs, cancelled }) => [atMs, cancelled]),
    [
      [100, true],
      [50, false],
    ],
  );
  nowMs = 50;
  next = 75;
  scheduled[1]!.run();
  assert.equal(scheduled[2]?.atMs, 75);
  timer.stop();
  timer.arm(10);
  assert.equal(scheduled.length, 3);
});

test('a rejection is counted each time and logged once per interval', () => {
  const counters = new TransportCounters();
  const lines: string[] = [];
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, wallMs: () => 0, schedule: () => () => undefined };
  const rejections = new RejectionLog(counters, clock, (_level, message, fields) => {
    lines.push(`${message} ${JSON.stringify(fields)}`);
  });
  for (let i = 0; i < 1_000; i++) rejections.count('malformed', '1.2.3.4:5');
  rejections.count('replayed', '1.2.3.4:5');
  nowMs = 20_000;
  rejections.count('malformed', '1.2.3.4:5');
  assert.equal(counters.snapshot()['rejected.malformed'], 1_001);
  assert.equal(lines.length, 3);
});
