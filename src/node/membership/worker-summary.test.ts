import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { decodeWorkerSummary, publishWorkerSummary } from './worker-summary.ts';

/** A clock whose next look is taken by hand. */
function handClock(): { readonly clock: Clock; readonly look: () => void } {
  let next = (): void => undefined;
  const schedule = (_delayMs: number, run: () => void): (() => void) => {
    next = run;
    return () => undefined;
  };
  return { clock: { nowMs: () => 0, wallMs: () => 0, schedule }, look: () => next() };
}

test('a worker tells what it has, and tells it again only when it differs', () => {
  const { clock, look } = handClock();
  const told: Uint8Array[] = [];
  let jobs = { coresTotal: 2, coresFree: 2, units: 0, attempts: 0 };
  publishWorkerSummary(clock, {
    table: () => Uint8Array.of(1, 2, 3),
    jobs: () => jobs,
    measure: () => ({ cpu: 0.44, memory: 0.96 }),
    embed: (state) => told.push(state),
  });
  look();
  look();
  assert.equal(told.length, 1);
  jobs = { coresTotal: 2, coresFree: 1, units: 1, attempts: 77 };
  look();
  assert.equal(told.length, 2);
  const last = told[1];
  assert.ok(last !== undefined && last.length < 64, 'it rides on acks, beside others');
  const { table, level, cpuPercent, memoryPercent, ...rest } = decodeWorkerSummary(last) ?? {};
  assert.deepEqual(rest, { kind: 'workerNotice', ...jobs });
  assert.deepEqual([table, level, cpuPercent, memoryPercent], [Uint8Array.of(1, 2, 3), 'normal', 40, 100]);
});

test('what cannot be read says nothing', () => {
  for (const bytes of [new Uint8Array(), Uint8Array.of(9, 9, 9), new Uint8Array(16)])
    assert.equal(decodeWorkerSummary(bytes), undefined);
});
