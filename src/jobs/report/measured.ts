/**
 * Maps the name of a metric to its measured numbers, for thresholds: `http.duration`, `http.failed`, `requests`,
 * `iteration.duration`, `iterations`, `failed`, `dropped`, `step.NAME`, `step.NAME.failed`, `checks`, `check.NAME`, and
 * the author's own metrics.
 */
import type { Histogram } from '../../base/histogram.ts';
import type { MetricCounts, Summary } from './summary.ts';
import type { MeasuredMetric } from './thresholds.ts';

/** Undefined for a metric without a count. */
export function measuredMetric(metric: string, summary: Summary): MeasuredMetric | undefined {
  const own = summary.metrics.get(metric);
  if (own !== undefined) return ofMetric(own);
  switch (metric) {
    case 'http.duration':
      return summary.http && ofHistogram(summary.http);
    case 'http.failed':
      return ofShare(summary.requestsFailed, summary.requests);
    case 'requests':
      return { count: summary.requests };
    case 'iteration.duration':
      return summary.iterationTimes && ofHistogram(summary.iterationTimes);
    case 'iterations':
      return { count: summary.iterations };
    case 'failed':
      return ofShare(summary.failed, summary.iterations);
    case 'dropped':
      return ofShare(summary.dropped, summary.dropped + summary.iterations);
    case 'checks':
      return ofChecks([...summary.checks.values()]);
  }
  if (metric.startsWith('step.')) return ofStep(metric.slice(5), summary);
  if (!metric.startsWith('check.')) return undefined;
  const check = summary.checks.get(metric.slice(6));
  return check && ofChecks([check]);
}

function ofStep(name: string, { steps }: Summary): MeasuredMetric | undefined {
  const step = steps.get(name);
  if (step !== undefined) return ofHistogram(step.durations);
  const failing = name.endsWith('.failed') ? steps.get(name.slice(0, -7)) : undefined;
  return failing && ofShare(failing.failed, failing.durations.count);
}

/** The rate is the share of checks that passed. */
function ofChecks(checks: readonly { readonly passed: number; readonly failed: number }[]): MeasuredMetric {
  const passed = checks.reduce((sum, check) => sum + check.passed, 0);
  const failed = checks.reduce((sum, check) => sum + check.failed, 0);
  return ofShare(passed, passed + failed);
}

function ofShare(part: number, whole: number): MeasuredMetric {
  return { count: part, rate: whole === 0 ? undefined : part / whole };
}

function ofHistogram(histogram: Histogram): MeasuredMetric {
  const { count } = histogram;
  if (count === 0) return { count };
  return {
    count,
    quantileMs: (share) => histogram.quantileUs(share) / 1_000,
    avgMs: histogram.meanUs / 1_000,
    minMs: histogram.minUs / 1_000,
    maxMs: histogram.maxUs / 1_000,
  };
}

function ofMetric(metric: MetricCounts): MeasuredMetric {
  if (metric.kind === 'count') return { count: metric.total, value: metric.total };
  if (metric.kind === 'rate') return ofShare(metric.hits, metric.total);
  if (metric.kind === 'trend') return ofHistogram(metric.values);
  return { count: metric.count, value: metric.last, minMs: metric.min, maxMs: metric.max };
}
