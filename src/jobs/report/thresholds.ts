/**
 * Parses conditions such as `p(99)<250ms` and evaluates them against measured metrics. A metric without a value
 * satisfies no condition.
 */
import { RemusterError } from '../../base/errors.ts';

type MeasureName = 'avg' | 'min' | 'max' | 'med' | 'p' | 'rate' | 'count' | 'value';
type Comparison = '<' | '<=' | '>' | '>=' | '==' | '!=';

export type Threshold = {
  readonly measure: MeasureName;
  /** Quantile of `p` and `med`: 0 to 1. */
  readonly share: number;
  readonly comparison: Comparison;
  /** Times in milliseconds, shares from 0 to 1. */
  readonly limit: number;
};

/** Measured numbers of a metric; undefined where a number does not apply or nothing was measured. */
export type MeasuredMetric = {
  /** `share` is the quantile: 0 to 1. */
  quantileMs?(share: number): number | undefined;
  readonly avgMs?: number | undefined;
  readonly minMs?: number | undefined;
  readonly maxMs?: number | undefined;
  readonly count?: number | undefined;
  readonly rate?: number | undefined;
  readonly value?: number | undefined;
};

const pattern =
  /^\s*(avg|min|max|med|rate|count|value|p\(\s*(\d+(?:\.\d+)?)\s*\))\s*(<=|>=|==|!=|<|>)\s*(-?\d+(?:\.\d+)?)\s*(us|ms|s|m|%)?\s*$/;
const factors: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000, m: 60_000, '%': 0.01 };

/** Throws BAD_ARGUMENT for an invalid condition. */
export function parseThreshold(expr: string): Threshold {
  const [, measure, percent, comparison, limit, unit] = pattern.exec(expr) ?? [];
  if (measure === undefined || limit === undefined || Number(percent ?? 0) > 100) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `"${expr}" is not a threshold: write for example p(99)<250ms, avg<100ms, max<1s, rate<1%, count>100`,
    );
  }
  return {
    measure: percent === undefined ? (measure as MeasureName) : 'p',
    share: measure === 'med' ? 0.5 : Number(percent ?? 0) / 100,
    comparison: comparison as Comparison,
    // Not a multiplication by 0.01, which is wrong in the last digit: 1 % is exactly 0.01.
    limit: unit === '%' ? Number(limit) / 100 : Number(limit) * (factors[unit ?? ''] ?? 1),
  };
}

export function thresholdValue({ measure, share }: Threshold, measured: MeasuredMetric): number | undefined {
  if (measure === 'p' || measure === 'med') return measured.quantileMs?.(share);
  if (measure === 'rate' || measure === 'count' || measure === 'value') return measured[measure];
  return measured[`${measure}Ms`];
}

const tests: Readonly<Record<Comparison, (value: number, limit: number) => boolean>> = {
  '<': (value, limit) => value < limit,
  '<=': (value, limit) => value <= limit,
  '>': (value, limit) => value > limit,
  '>=': (value, limit) => value >= limit,
  '==': (value, limit) => value === limit,
  '!=': (value, limit) => value !== limit,
};

export function thresholdHolds({ comparison, limit }: Threshold, value: number | undefined): boolean {
  return value !== undefined && tests[comparison](value, limit);
}
