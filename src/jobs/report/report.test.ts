import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Histogram } from '../../base/histogram.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import { type ReportInput, latencyPercentiles, buildReport, hasFailedThresholds } from './report.ts';
import { Summary } from './summary.ts';

const common = {
  cores: 2,
  after: [],
  timeoutMs: 60_000,
  maxRetries: 3,
  network: true,
  memoryMb: 256,
  hasSetup: false,
  hasTeardown: false,
};
const checkout: WorkflowFacts = {
  ...common,
  name: 'checkout',
  style: 'load',
  thresholds: { 'http.duration': ['p(99)<250ms'], failed: ['rate<1%'] },
  load: {
    vus: 2,
    durationMs: 10_000,
    steps: [
      { name: 'browse', after: [] },
      { name: 'buy', after: ['browse'] },
    ],
  },
};
const resize: WorkflowFacts = {
  ...common,
  name: 'resize',
  style: 'batch',
  thresholds: {},
  batch: { items: 3, firstOnly: false, concurrency: 1, unitItemsMax: 1, keepResults: true },
};

function checkoutSummary(): Summary {
  const summary = new Summary();
  summary.iterations = 20;
  summary.failed = 2;
  summary.requests = 40;
  summary.requestsFailed = 1;
  summary.bytesIn = 4_000;
  summary.bytesOut = 400;
  summary.dropped = 3;
  summary.saturated = true;
  summary.lagMaxUs = 1_500;
  summary.interrupted = 1;
  summary.http = new Histogram();
  for (let i = 0; i < 40; i++) summary.http.record(100_000);
  for (let i = 0; i < 20; i++) summary.step('browse').durations.record(50);
  summary.check('paid', true);
  summary.check('paid', false);
  summary.metric('sold', 'count').total = 5;
  summary.error('browse', 'Error: gone', () => 'checkout.ts:7:3');
  summary.error('browse', 'Error: gone', () => assert.fail('the place is computed once'));
  return summary;
}

const input: ReportInput = {
  jobId: 'j1',
  name: 'checkout',
  status: 'COMPLETED',
  elapsedMs: 12_000,
  workflows: [
    {
      facts: checkout,
      status: 'COMPLETED',
      summary: checkoutSummary(),
      completed: 18,
      failed: 2,
      elapsedMs: 10_000,
    },
    { facts: resize, status: 'PENDING', summary: undefined, completed: 0, failed: 0, elapsedMs: 0 },
  ],
  attempts: [{ workflow: 'checkout', worker: 'w1', cores: 1, fence: '7', outcome: 'completed', unit: 0, attempt: 1 }],
  incidents: [{ time: '2026-01-01T00:00:00.000Z', type: 'worker.lost', node: 'w2', effect: 'unit 1 again on w1' }],
};

const zero = { min: 0, mean: 0, p50: 0, p90: 0, p95: 0, p99: 0, p999: 0, max: 0 };
const all = (ms: number) => ({ min: ms, mean: ms, p50: ms, p90: ms, p95: ms, p99: ms, p999: ms, max: ms });

describe('the report of a job', () => {
  it('has the shape of the public contract', () => {
    assert.deepEqual(JSON.parse(JSON.stringify(buildReport(input))), {
      schemaVersion: 1,
      jobId: 'j1',
      name: 'checkout',
      status: 'COMPLETED',
      elapsedMs: 12_000,
      partial: null,
      totals: { completed: 18, failed: 2, iterations: 20, requests: 40, bytesIn: 4_000, bytesOut: 400 },
      workflows: [
        {
          name: 'checkout',
          style: 'load',
          status: 'COMPLETED',
          completed: 18,
          failed: 2,
          elapsedMs: 10_000,
          ratePerSecond: 2,
        },
        { name: 'resize', style: 'batch', status: 'PENDING', completed: 0, failed: 0, elapsedMs: 0, ratePerSecond: 0 },
      ],
      steps: [
        { workflow: 'checkout', step: 'browse', count: 20, failed: 0, ratePerSecond: 2, latencyMs: all(0.05) },
        { workflow: 'checkout', step: 'buy', count: 0, failed: 0, ratePerSecond: 0, latencyMs: zero },
        { workflow: 'resize', step: 'each', count: 0, failed: 0, ratePerSecond: 0, latencyMs: zero },
      ],
      http: { count: 40, failed: 1, latencyMs: all(100) },
      checks: [{ workflow: 'checkout', name: 'paid', passed: 1, failed: 1 }],
      metrics: [{ workflow: 'checkout', name: 'sold', kind: 'count', count: 5 }],
      thresholds: [
        {
          workflow: 'checkout',
          metric: 'http.duration',
          expr: 'http.duration: p(99)<250ms',
          ok: true,
          value: 100,
        },
        { workflow: 'checkout', metric: 'failed', expr: 'failed: rate<1%', ok: false, value: 0.1 },
      ],
      errors: [{ workflow: 'checkout', step: 'browse', message: 'Error: gone', place: 'checkout.ts:7:3', count: 2 }],
      failures: [],
      attempts: input.attempts,
      incidents: input.incidents,
      generator: { saturated: true, dropped: 3, interrupted: 1, lagMaxMs: 1.5 },
    });
    assert.equal(hasFailedThresholds(buildReport(input)), true);
  });

  it('covers workflows that have more steps together than one may have', () => {
    const many = Array.from({ length: 5 }, (_, at) => {
      const summary = new Summary();
      summary.iterations = 1;
      for (let i = 0; i < 60; i++) summary.step(`w${at}s${i}`).durations.record(1);
      return {
        facts: { ...checkout, name: `w${at}` },
        status: 'COMPLETED' as const,
        summary,
        completed: 1,
        failed: 0,
        elapsedMs: 1,
      };
    });
    const report = buildReport({ ...input, workflows: many });
    assert.equal(report.totals.iterations, 5);
    assert.equal(report.steps.length, 5 * 62);
  });

  it('contains the error of a failed job, and null for a threshold without a value', () => {
    const error = { code: 'WORKFLOW_FAILED', message: 'setup: no' };
    const report = buildReport({
      ...input,
      status: 'FAILED',
      error,
      workflows: [
        { facts: checkout, status: 'FAILED', summary: undefined, completed: 0, failed: 0, elapsedMs: 0, error },
      ],
    });
    assert.deepEqual([report.error, report.workflows[0]?.error], [error, error]);
    assert.deepEqual(
      report.thresholds.map(({ ok, value }) => [ok, value]),
      [
        [false, null],
        [false, null],
      ],
    );
  });

  it('has live percentiles of requests, else of iterations', () => {
    assert.equal(latencyPercentiles(undefined), null);
    assert.equal(latencyPercentiles(new Summary()), null, 'nothing has been measured');
    assert.deepEqual(latencyPercentiles(checkoutSummary()), { p50: 100, p95: 100, p99: 100 });
    const items = new Summary();
    items.iterationTimes = new Histogram();
    items.iterationTimes.record(2_000);
    assert.deepEqual(latencyPercentiles(items), { p50: 2, p95: 2, p99: 2 });
  });
});
