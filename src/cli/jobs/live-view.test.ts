/** The live view of a job: its progress, its lines, its samples, and that it prints no control characters. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JobProgress } from '../../jobs/job-types.ts';
import { deriveFacts } from '../../runner/definition/fact-derivation.ts';
import { workflow } from '../../runner/definition/workflow.ts';
import {
  formatBytes,
  formatCount,
  formatElapsed,
  formatLatency,
  formatPercent,
  formatRate,
} from '../output/amounts.ts';
import { LiveView, progressLine, type ViewStyle } from './live-view.ts';

const style: ViewStyle = { columns: 80, blocks: false, paint: (_style, text) => text };
const load = deriveFacts(workflow('checkout', { vus: 4, duration: '10s', steps: { browse: () => 1 } }));
const batch = deriveFacts(workflow('resize', { items: 200, each: () => 1 }));

function progress(others: Partial<JobProgress> = {}): JobProgress {
  return {
    ...{ jobId: 'j1', version: 1, status: 'RUNNING', elapsedMs: 2_000, completed: 1_234, failed: 0 },
    ...{
      ratePerSecond: 100,
      latencyMs: { p50: 1, p95: 2, p99: 30 },
      queue: null,
      workers: ['w1', 'w2'],
      incidents: [],
    },
    workflows: [workflowProgress('checkout')],
    ...others,
  };
}

function workflowProgress(
  name: string,
  status: JobProgress['workflows'][number]['status'] = 'RUNNING',
  completed = 0,
): JobProgress['workflows'][number] {
  const units = { total: 4, done: 1, running: 3 };
  return { id: name, name, status, completed, failed: 0, ratePerSecond: 0, units };
}

describe('the progress fraction', () => {
  test('is the time of a load test, the items of a batch, and the mean of several workflows', () => {
    const one = new LiveView([load]);
    assert.equal(one.fraction(0), undefined);
    one.update(1_000, progress());
    assert.equal(one.fraction(6_000), 0.5);
    assert.equal(one.fraction(99_000), 0.99, '1 is only for a finished job');
    const two = new LiveView([load, batch]);
    two.update(
      1_000,
      progress({ workflows: [workflowProgress('checkout', 'COMPLETED'), workflowProgress('resize', 'RUNNING', 100)] }),
    );
    assert.equal(two.fraction(2_000), 0.75);
  });

  test('is the share of finished units without the facts of the workflows', () => {
    const view = new LiveView([]);
    view.update(1_000, progress());
    assert.equal(view.fraction(2_000), 0.25);
    view.update(
      2_000,
      progress({ workflows: [{ ...workflowProgress('checkout'), units: { total: 1, done: 0, running: 1 } }] }),
    );
    assert.equal(view.fraction(2_000), undefined);
  });
});

describe('the live view', () => {
  test('shows rate, latency, failures, the queue and incidents', () => {
    const view = new LiveView([load]);
    for (const rate of [0, 50, 100]) view.update(1_000, progress({ ratePerSecond: rate }));
    const incident = { time: '2026-01-01T10:00:00.000Z', type: 'worker.lost', node: 'w2', effect: 'retried' } as const;
    view.update(1_000, progress({ failed: 3, incidents: [incident], queue: { position: 2, reason: 'no free core' } }));
    const text = view.lines(3_000, style).join('\n');
    assert.match(text, /^checkout {2}RUNNING {2}4\.0 s {2}on w1 w2\n\[#+\.+\] {2}20%\n/);
    assert.match(text, /done +1,234 {2}3 failed\nrate +100\/s +_\+##\nlatency +p50 1 ms +p95 2 ms +p99 30 ms/);
    assert.match(text, /queued +position 2: no free core/);
    assert.match(text, /10:00:00 {2}worker\.lost {2}w2 {2}retried/);
    assert.match(progressLine(progress()), /^RUNNING {2}2\.0 s {2}1,234 done {2}0 failed {2}100\/s .* on w1 w2$/);
  });

  test('shows dashes for latencies before anything was measured', () => {
    const view = new LiveView([load]);
    const unmeasured = progress({ latencyMs: null });
    view.update(0, unmeasured);
    assert.match(view.lines(0, style).join('\n'), /latency {2}p50 - {3}p95 - {3}p99 -/);
    assert.match(progressLine(unmeasured), /p50 - {2}p95 - {2}p99 -/);
  });

  test('has a line for each of several workflows, and no control characters of a name', () => {
    const view = new LiveView([]);
    const malicious = `a\u001b[2J`;
    view.update(
      0,
      progress({ workflows: [workflowProgress(malicious), workflowProgress('b', 'PENDING')], workers: [malicious] }),
    );
    const text = view.lines(0, style).join('\n');
    assert.match(text, /b +PENDING +1 of 4 units/);
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch(text + progressLine(progress({ workers: [malicious] })), /\u001b/);
  });

  test('keeps at most 600 samples, which cover the whole run', () => {
    const view = new LiveView([]);
    for (let i = 1; i <= 5_000; i++) view.update(i, progress({ elapsedMs: i }));
    assert.ok(view.samples.length <= 600);
    assert.equal(view.samples.at(0)?.elapsedMs, 1);
    view.update(5_001, progress({ elapsedMs: 5_001, status: 'COMPLETED' }));
    assert.equal(view.samples.at(-1)?.elapsedMs, 5_001);
  });
});

test('formatted amounts are short and have a unit', () => {
  assert.deepEqual([formatCount(1_234_567), formatRate(2.5), formatRate(1_234.5)], ['1,234,567', '2.5/s', '1,235/s']);
  assert.deepEqual([0, 0.1234, 1.234, 12.34, 123.4, 12_345].map(formatLatency), [
    '0 ms',
    '0.123 ms',
    '1.23 ms',
    '12.3 ms',
    '123 ms',
    '12.3 s',
  ]);
  assert.deepEqual([900, 61_000, 3_720_000].map(formatElapsed), ['0.9 s', '1 m 1 s', '1 h 2 m']);
  assert.deepEqual([999, 1_500, 2_000_000].map(formatBytes), ['999 B', '1.5 kB', '2 MB']);
  assert.deepEqual([0, 0.0123, 0.5].map(formatPercent), ['0%', '1.23%', '50%']);
});
