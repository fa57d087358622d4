import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { decodeWorkerSummary, publishWorkerSummary } from './worker-summary.ts';

/** A clock whose next timer the test fires. */
function manualClock(): { readonly clock: Clock; readonly fireTimer: () => void } {
  let next = (): void => undefined;
  const schedule = (_delayMs: number, run: () => void): (() => void) => {
    next = run;
    return () => undefined;
  };
  return { clock: { nowMs: () => 0, wallMs: () => 0, schedule }, fireTimer: () => next() };
}

test('a worker publishes its summary, and again only when it changed', () => {
  const { clock, fireTimer } = manualClock();
  const published: Uint8Array[] = [];
  let jobs = { coresTotal: 2, coresFree: 2, units: 0, attempts: 0 };
  publishWorkerSummary(clock, {
    table: () => Uint8Array.of(1, 2, 3),
    jobs: () => jobs,
    measure: () => ({ cpu: 0.44, memory: 0.96 }),
    embed: (state) => published.push(state),
  });
  fireTimer();
  fireTimer();
  assert.equal(published.length, 1);
  jobs = { coresTotal: 2, coresFree: 1, units: 1, attempts: 77 };
  fireTimer();
  assert.equal(published.length, 2);
  const last = published[1];
  assert.ok(last !== undefined && last.length < 64, 'a summary must leave room for other state in an ack');
  const { table, level, cpuPercent, memoryPercent, ...rest } = decodeWorkerSummary(last) ?? {};
  assert.deepEqual(rest, { kind: 'workerNotice', ...jobs });
  assert.deepEqual([table, level, cpuPercent, memoryPercent], [Uint8Array.of(1, 2, 3), 'normal', 40, 100]);
});

test('decodeWorkerSummary returns undefined for bytes that are no summary', () => {
  for (const bytes of [new Uint8Array(), Uint8Array.of(9, 9, 9), new Uint8Array(16)])
    assert.equal(decodeWorkerSummary(bytes), undefined);
});
