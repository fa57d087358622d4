/** Implements `ctx.metrics`: validates and records the metrics of the author. */
import { RemusterError } from '../../base/errors.ts';
import { mergeGauge } from '../../jobs/report/summary.ts';
import type { Metrics } from '../definition/workflow-context.ts';
import type { RunScope } from './run-scope.ts';

export function authorMetrics(run: RunScope): Metrics {
  const { summary, clock } = run;
  return {
    count: (name, by = 1) => {
      if (!Number.isSafeInteger(by) || by < 0) throw invalid(name, 'counts whole numbers, 0 or more');
      if (!run.isAborted) summary.metric(name, 'count').total += by;
    },
    rate: (name, isHit) => {
      if (typeof isHit !== 'boolean') throw invalid(name, 'takes true or false');
      if (run.isAborted) return;
      const metric = summary.metric(name, 'rate');
      metric.total += 1;
      if (isHit) metric.hits += 1;
    },
    gauge: (name, value) => {
      if (!Number.isFinite(value)) throw invalid(name, 'takes a finite number');
      if (run.isAborted) return;
      const lastAtMs = clock.wallMs();
      mergeGauge(summary.metric(name, 'gauge'), { count: 1, min: value, max: value, last: value, lastAtMs });
    },
    trend: (name, valueMs) => {
      if (!Number.isFinite(valueMs) || valueMs < 0) throw invalid(name, 'takes a duration in milliseconds');
      if (!run.isAborted) summary.metric(name, 'trend').values.record(valueMs * 1_000);
    },
  };
}

function invalid(name: string, what: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', `the metric "${name}" ${what}`);
}
