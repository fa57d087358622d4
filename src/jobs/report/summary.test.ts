import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isRemusterError } from '../../base/errors.ts';
import { Histogram } from '../../base/histogram.ts';
import { decodeSummary, encodeSummary } from './summary-codec.ts';
import { Summary, mergeGauge, mergeSummaries } from './summary.ts';

/** One measurement of a unit, as data. */
type Measurement =
  | { readonly kind: 'iteration'; readonly failed: boolean; readonly us: number }
  | { readonly kind: 'step'; readonly name: string; readonly failed: boolean; readonly us: number }
  | { readonly kind: 'request'; readonly ok: boolean; readonly us: number; readonly bytes: number }
  | { readonly kind: 'check'; readonly name: string; readonly ok: boolean }
  | { readonly kind: 'count' | 'rate' | 'gauge' | 'trend'; readonly value: number; readonly atMs: number }
  | { readonly kind: 'error'; readonly step: string; readonly text: string }
  | { readonly kind: 'generator'; readonly lagUs: number; readonly dropped: number };

const us = fc.integer({ min: 1, max: 3_600_000_000 });
const name = fc.constantFrom('browse', 'buy', 'pay');
const measurement: fc.Arbitrary<Measurement> = fc.oneof(
  fc.record({ kind: fc.constant('iteration' as const), failed: fc.boolean(), us }),
  fc.record({ kind: fc.constant('step' as const), name, failed: fc.boolean(), us }),
  fc.record({ kind: fc.constant('request' as const), ok: fc.boolean(), us, bytes: fc.nat() }),
  fc.record({ kind: fc.constant('check' as const), name, ok: fc.boolean() }),
  fc.record({
    kind: fc.constantFrom('count' as const, 'rate' as const, 'gauge' as const, 'trend' as const),
    value: fc.nat(1_000),
    atMs: fc.nat(10),
  }),
  fc.record({ kind: fc.constant('error' as const), step: name, text: fc.integer({ min: 0, max: 60 }).map(String) }),
  fc.record({ kind: fc.constant('generator' as const), lagUs: fc.nat(), dropped: fc.nat(5) }),
);

function apply(summary: Summary, event: Measurement): void {
  switch (event.kind) {
    case 'iteration':
      summary.iterations += 1;
      summary.failed += Number(event.failed);
      (summary.iterationTimes ??= new Histogram()).record(event.us);
      return;
    case 'step':
      summary.step(event.name).failed += Number(event.failed);
      summary.step(event.name).durations.record(event.us);
      return;
    case 'request':
      summary.requests += 1;
      summary.requestsFailed += Number(!event.ok);
      summary.bytesIn += event.bytes;
      (summary.http ??= new Histogram()).record(event.us);
      return;
    case 'check':
      summary.check(event.name, event.ok);
      return;
    case 'count':
      summary.metric('count', 'count').total += event.value;
      return;
    case 'rate':
      summary.metric('rate', 'rate').total += 1;
      summary.metric('rate', 'rate').hits += event.value % 2;
      return;
    case 'gauge': {
      const { value, atMs } = event;
      mergeGauge(summary.metric('gauge', 'gauge'), { count: 1, min: value, max: value, last: value, lastAtMs: atMs });
      return;
    }
    case 'trend':
      summary.metric('trend', 'trend').values.record(event.value);
      return;
    case 'error':
      summary.error(event.step, event.text, () => `${event.step}.ts:1`);
      return;
    case 'generator':
      summary.lagMaxUs = Math.max(summary.lagMaxUs, event.lagUs);
      summary.dropped += event.dropped;
      summary.saturated ||= event.dropped > 0;
  }
}

function summaryOf(measurements: readonly Measurement[]): Summary {
  const summary = new Summary();
  for (const one of measurements) apply(summary, one);
  return summary;
}

/** The content in an order that does not depend on insertion. */
function contentOf(summary: Summary): unknown {
  const sorted = <V>(map: ReadonlyMap<string, V>, value: (one: V) => unknown): unknown =>
    [...map].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, value(one)]);
  return {
    ...Object.fromEntries(Object.entries(summary)),
    http: summary.http?.toSparse(),
    iterationTimes: summary.iterationTimes?.toSparse(),
    steps: sorted(summary.steps, (step) => [step.failed, step.durations.toSparse()]),
    checks: sorted(summary.checks, (check) => check),
    metrics: sorted(summary.metrics, (metric) => ('values' in metric ? metric.values.toSparse() : metric)),
    errorSamples: sorted(summary.errorSamples, (sample) => sample),
  };
}

describe('a summary', () => {
  it('equals the merge of its parts in any order and grouping', () => {
    fc.assert(
      fc.property(
        fc.array(measurement, { maxLength: 200 }),
        fc.array(fc.nat(4), { minLength: 200, maxLength: 200 }),
        fc.array(fc.nat(), { minLength: 5, maxLength: 5 }),
        (measurements, owners, order) => {
          const whole = summaryOf(measurements);
          const parts = [0, 1, 2, 3, 4].map((owner) => summaryOf(measurements.filter((_, i) => owners[i] === owner)));
          const shuffled = parts
            .map((part, i) => ({ part, at: order[i] ?? 0 }))
            .toSorted((a, b) => a.at - b.at)
            .map(({ part }) => decodeSummary(encodeSummary(part)));
          assert.deepEqual(contentOf(mergeSummaries(shuffled)), contentOf(whole));
          const grouped = mergeSummaries([mergeSummaries(shuffled.slice(0, 2)), mergeSummaries(shuffled.slice(2))]);
          assert.deepEqual(contentOf(grouped), contentOf(whole));
        },
      ),
      { numRuns: 100 },
    );
  });

  it('is unchanged by encoding and decoding', () => {
    fc.assert(
      fc.property(fc.array(measurement, { maxLength: 100 }), (measurements) => {
        const summary = summaryOf(measurements);
        assert.deepEqual(contentOf(decodeSummary(encodeSummary(summary))), contentOf(summary));
      }),
      { numRuns: 100 },
    );
  });

  it('takes 3 bytes when it is empty', () => {
    assert.equal(encodeSummary(new Summary()).length, 3);
  });

  it('is rejected when it is too large, never truncated', () => {
    const summary = new Summary();
    for (let i = 0; i < 100; i++) {
      const { durations } = summary.step(`step${i}`);
      const trend = summary.metric(`metric${i}`, 'trend');
      assert.ok(trend.kind === 'trend');
      for (let value = 1; value < 3_600_000_000; value = Math.ceil(value * 1.008)) trend.values.record(value);
      for (let value = 1; value < 3_600_000_000; value = Math.ceil(value * 1.008)) durations.record(value);
    }
    assert.throws(() => encodeSummary(summary), /TOO_LARGE|limit of 335872 bytes/);
  });

  it('refuses more names than it may have', () => {
    const summary = new Summary();
    for (let i = 0; i < 100; i++) summary.check(`c${i}`, true);
    assert.throws(() => summary.check('one more', true), /more than 100 checks/);
    assert.throws(() => summary.metric('', 'count'), /1 to 100 characters/);
    assert.throws(() => summary.metric('\ud800', 'count'), /1 to 100 characters/);
  });

  it('keeps a bounded number of names when units have many, the same in any merge order', () => {
    const parts = Array.from({ length: 30 }, (_, part) => {
      const summary = new Summary();
      for (let i = 0; i < 100; i++) summary.check(`check ${part * 50 + i}`, i % 2 === 0);
      return summary;
    });
    const forward = mergeSummaries(parts);
    const backward = mergeSummaries(parts.toReversed());
    assert.equal(forward.checks.size, 1_000);
    assert.deepEqual(contentOf(forward), contentOf(backward));
  });

  it('does not depend on the merge order when broken runners disagree on the kind of a metric', () => {
    const parts = (['rate', 'count', 'trend', 'gauge', 'count'] as const).map((kind) => {
      const summary = new Summary();
      summary.metric('m', kind);
      if (kind === 'count') summary.metric('m', 'count').total = 3;
      return summary;
    });
    assert.deepEqual(mergeSummaries(parts).metrics.get('m'), { kind: 'count', total: 6 });
    assert.deepEqual(contentOf(mergeSummaries(parts.toReversed())), contentOf(mergeSummaries(parts)));
  });

  it('is rejected with a coded error when a broken runner sends damaged bytes', () => {
    const whole = fc.array(measurement, { minLength: 1, maxLength: 30 }).map((list) => encodeSummary(summaryOf(list)));
    const damage = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 });
    fc.assert(
      fc.property(whole, damage, (bytes, changes) => {
        const broken = Uint8Array.from(bytes);
        for (const [at, value] of changes) broken[at % broken.length] = value;
        try {
          const merged = mergeSummaries([decodeSummary(broken), decodeSummary(bytes)]);
          assert.ok(merged.iterations >= 0);
        } catch (error) {
          assert.ok(isRemusterError(error), String(error));
        }
      }),
      { numRuns: 500 },
    );
  });

  it('is rejected when its bytes are invalid or incomplete', () => {
    assert.throws(() => decodeSummary(new Uint8Array([1, 2, 3])));
    const whole = encodeSummary(summaryOf([{ kind: 'step', name: 'buy', failed: false, us: 5 }]));
    assert.throws(() => decodeSummary(whole.subarray(0, whole.length - 1)));
  });
});
