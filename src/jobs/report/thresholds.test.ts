import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Histogram } from '../../base/histogram.ts';
import { measuredMetric } from './measured.ts';
import { Summary, mergeGauge } from './summary.ts';
import { thresholdHolds, parseThreshold, thresholdValue } from './thresholds.ts';

function full(): Summary {
  const summary = new Summary();
  summary.iterations = 200;
  summary.failed = 2;
  summary.requests = 400;
  summary.requestsFailed = 4;
  summary.dropped = 50;
  summary.http = new Histogram();
  summary.iterationTimes = new Histogram();
  for (let ms = 1; ms <= 100; ms++) {
    summary.http.record(ms * 1_000);
    summary.iterationTimes.record(ms * 2_000);
    summary.step('buy').durations.record(ms * 1_000);
  }
  summary.step('buy').failed = 10;
  summary.check('ok', true);
  summary.check('ok', false);
  summary.check('fine', true);
  summary.metric('sold', 'count').total = 7;
  summary.metric('hit', 'rate').total = 4;
  summary.metric('hit', 'rate').hits = 1;
  summary.metric('size', 'trend').values.record(5_000);
  mergeGauge(summary.metric('depth', 'gauge'), { count: 1, min: -3, max: 9, last: 4, lastAtMs: 1 });
  return summary;
}

function isMet(metric: string, expr: string, summary = full()): boolean {
  const threshold = parseThreshold(expr);
  const measured = measuredMetric(metric, summary);
  return thresholdHolds(threshold, measured && thresholdValue(threshold, measured));
}

describe('a threshold', () => {
  it('is parsed with its unit', () => {
    assert.deepEqual(parseThreshold('p(99)<250ms'), { measure: 'p', share: 0.99, comparison: '<', limit: 250 });
    assert.deepEqual(parseThreshold(' p(99.9) <= 1.5s '), {
      measure: 'p',
      share: 0.9990000000000001,
      comparison: '<=',
      limit: 1_500,
    });
    assert.deepEqual(parseThreshold('rate<1%'), { measure: 'rate', share: 0, comparison: '<', limit: 0.01 });
    assert.deepEqual(parseThreshold('count>100'), { measure: 'count', share: 0, comparison: '>', limit: 100 });
    assert.deepEqual(parseThreshold('med<5'), { measure: 'med', share: 0.5, comparison: '<', limit: 5 });
    for (const wrong of ['', 'p(101)<5', 'p<5', 'rate<', 'often', 'rate=1%', 'p(99)<250 weeks', 'count>1;drop']) {
      assert.throws(() => parseThreshold(wrong), /is not a threshold/, wrong);
    }
  });

  it('is evaluated on measured metrics', () => {
    const cases: readonly (readonly [metric: string, holding: string, failing: string])[] = [
      ['http.duration', 'p(50)<51ms', 'p(99)<50ms'],
      ['http.duration', 'avg<51ms', 'avg<50ms'],
      ['http.duration', 'max<=100ms', 'max<100ms'],
      ['http.duration', 'min>=1ms', 'min>1ms'],
      ['http.failed', 'rate<=1%', 'rate<1%'],
      ['requests', 'count>=400', 'count>400'],
      ['iteration.duration', 'med<102', 'med<90'],
      ['iterations', 'count==200', 'count!=200'],
      ['failed', 'rate<2%', 'rate<1%'],
      ['failed', 'count<3', 'count<2'],
      ['dropped', 'rate<=20%', 'rate<20%'],
      ['step.buy', 'p(90)<91.5ms', 'p(90)<50ms'],
      ['step.buy.failed', 'rate<=10%', 'rate<10%'],
      ['checks', 'rate>66%', 'rate>67%'],
      ['check.ok', 'rate>=50%', 'rate>50%'],
      ['sold', 'count>6', 'count>7'],
      ['hit', 'rate<=25%', 'rate>25%'],
      ['size', 'max<6ms', 'max<5ms'],
      ['depth', 'value==4', 'value>4'],
    ];
    for (const [metric, holding, failing] of cases) {
      assert.equal(isMet(metric, holding), true, `${metric} ${holding}`);
      assert.equal(isMet(metric, failing), false, `${metric} ${failing}`);
    }
  });

  it('does not hold without a measured value', () => {
    for (const metric of [
      'http.duration',
      'failed',
      'step.buy',
      'checks',
      'check.ok',
      'unknown.metric',
      'step.x.failed',
    ])
      assert.equal(isMet(metric, metric === 'http.duration' ? 'p(99)<1m' : 'rate<100%', new Summary()), false);
    assert.equal(isMet('sold', 'p(99)<5ms'), false, 'a count has no percentiles');
  });
});
