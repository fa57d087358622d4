/**
 * Builds the report of a job from merged summaries. Counts only the attempts that count, each once. A pure function.
 */
import type { Histogram } from '../../base/histogram.ts';
import type { AttemptView, Incident, JobProgress, JobStatus, WorkflowStatus } from '../job-types.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import type { ItemFailure } from './item-failures.ts';
import { measuredMetric } from './measured.ts';
import { type WorkflowFailures, reportFailures } from './report-failures.ts';
import { type MetricCounts, Summary } from './summary.ts';
import { thresholdHolds, parseThreshold, thresholdValue } from './thresholds.ts';

export type ReportInput = {
  readonly jobId: string;
  readonly name: string;
  readonly status: JobStatus;
  readonly elapsedMs: number;
  readonly workflows: readonly WorkflowReportInput[];
  /** Of a cancelled load test only. */
  readonly partial?: Report['partial'];
  readonly attempts: readonly (AttemptView & { readonly workflow: string })[];
  readonly incidents: readonly Incident[];
  readonly error?: { readonly code: string; readonly message: string };
};

export type WorkflowReportInput = {
  readonly facts: WorkflowFacts;
  readonly status: WorkflowStatus;
  /** Merged summary of all units; undefined if the workflow never ran. */
  readonly summary: Summary | undefined;
  /** Disjoint from `failed`. */
  readonly completed: number;
  readonly failed: number;
  /** Listed failed items of a batch, in order. */
  readonly failures?: readonly ItemFailure[];
  /** From the first assignment to the end. */
  readonly elapsedMs: number;
  readonly error?: { readonly code: string; readonly message: string };
};

export type LatencyMs = {
  readonly min: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
};

export type Report = {
  readonly schemaVersion: 1;
  readonly jobId: string;
  readonly name: string;
  readonly status: JobStatus;
  readonly elapsedMs: number;
  /**
   * The job was cancelled: its load tests count with what `unitsReported` of their `units` had measured by then. Null if
   * the report is complete, or no load test had started.
   */
  readonly partial: { readonly unitsReported: number; readonly units: number } | null;
  readonly totals: {
    readonly completed: number;
    readonly failed: number;
    readonly iterations: number;
    readonly requests: number;
    readonly bytesIn: number;
    readonly bytesOut: number;
  };
  readonly workflows: readonly {
    readonly name: string;
    readonly style: WorkflowFacts['style'];
    readonly status: WorkflowStatus;
    readonly completed: number;
    readonly failed: number;
    readonly elapsedMs: number;
    readonly ratePerSecond: number;
    readonly error?: { readonly code: string; readonly message: string };
  }[];
  readonly steps: readonly {
    readonly workflow: string;
    readonly step: string;
    readonly count: number;
    readonly failed: number;
    readonly ratePerSecond: number;
    readonly latencyMs: LatencyMs;
  }[];
  readonly http: { readonly count: number; readonly failed: number; readonly latencyMs: LatencyMs } | null;
  readonly checks: readonly {
    readonly workflow: string;
    readonly name: string;
    readonly passed: number;
    readonly failed: number;
  }[];
  readonly metrics: readonly MetricView[];
  readonly thresholds: readonly ThresholdView[];
  readonly errors: readonly {
    readonly workflow: string;
    readonly step: string;
    readonly message: string;
    readonly place: string;
    readonly count: number;
  }[];
  /** One entry per batch with failed items. */
  readonly failures: readonly WorkflowFailures[];
  readonly attempts: ReportInput['attempts'];
  readonly incidents: readonly Incident[];
  readonly generator: {
    readonly saturated: boolean;
    readonly dropped: number;
    readonly interrupted: number;
    readonly lagMaxMs: number;
  };
  readonly error?: { readonly code: string; readonly message: string };
};

export type MetricView = { readonly workflow: string; readonly name: string; readonly kind: MetricCounts['kind'] } & {
  readonly count: number;
  readonly rate?: number;
  readonly min?: number;
  readonly max?: number;
  readonly last?: number;
  readonly latencyMs?: LatencyMs;
};

export type ThresholdView = {
  readonly workflow: string;
  readonly metric: string;
  /** `http.duration: p(99)<250ms`. */
  readonly expr: string;
  readonly ok: boolean;
  /** Null if nothing was measured; `ok` is false then. */
  readonly value: number | null;
};

const attemptsMax = 1_000;

export function buildReport(input: ReportInput): Report {
  const { jobId, name, status, elapsedMs, workflows, error } = input;
  const all = new Summary();
  for (const { summary } of workflows) if (summary !== undefined) all.mergeCounts(summary);
  return {
    schemaVersion: 1,
    jobId,
    name,
    status,
    elapsedMs,
    partial: input.partial ?? null,
    totals: {
      completed: sum(workflows, (one) => one.completed),
      failed: sum(workflows, (one) => one.failed),
      iterations: all.iterations,
      requests: all.requests,
      bytesIn: all.bytesIn,
      bytesOut: all.bytesOut,
    },
    workflows: workflows.map(workflowView),
    steps: workflows.flatMap(stepViews),
    http:
      all.http === undefined
        ? null
        : { count: all.requests, failed: all.requestsFailed, latencyMs: latencyOf(all.http) },
    checks: workflows.flatMap(checkViews),
    metrics: workflows.flatMap(metricViews),
    thresholds: workflows.flatMap(thresholdViews),
    errors: workflows.flatMap(errorViews),
    failures: reportFailures(workflows),
    attempts: input.attempts.slice(0, attemptsMax),
    incidents: input.incidents,
    generator: {
      saturated: all.saturated,
      dropped: all.dropped,
      interrupted: all.interrupted,
      lagMaxMs: rounded(all.lagMaxUs / 1_000),
    },
    ...(error === undefined ? {} : { error }),
  };
}

/** True if a threshold failed: exit code 99. */
export function hasFailedThresholds(report: Pick<Report, 'thresholds'>): boolean {
  return report.thresholds.some(({ ok }) => !ok);
}

/** Percentiles for the live view: of requests if there are any, else of iterations or items. */
export function latencyPercentiles(summary: Summary | undefined): JobProgress['latencyMs'] {
  const times = summary?.http ?? summary?.iterationTimes;
  if (times === undefined || times.count === 0) return null;
  const { p50, p95, p99 } = latencyOf(times);
  return { p50, p95, p99 };
}

function workflowView(one: WorkflowReportInput): Report['workflows'][number] {
  const { facts, status, completed, failed, elapsedMs, error } = one;
  return {
    name: facts.name,
    style: facts.style,
    status,
    completed,
    failed,
    elapsedMs,
    ratePerSecond: averageRate(completed + failed, elapsedMs),
    ...(error === undefined ? {} : { error }),
  };
}

/** In the order of the definition; a step that never ran has a row too. */
function stepViews(one: WorkflowReportInput): Report['steps'] {
  const { facts, summary = new Summary() } = one;
  const declared = facts.load?.steps.map((step) => step.name) ?? ['each'];
  const names = new Set([...declared, ...[...summary.steps.keys()].toSorted()]);
  return [...names].map((step) => {
    const counts = summary.steps.get(step);
    const count = counts?.durations.count ?? 0;
    return {
      workflow: facts.name,
      step,
      count,
      failed: counts?.failed ?? 0,
      ratePerSecond: averageRate(count, one.elapsedMs),
      latencyMs: latencyOf(counts?.durations),
    };
  });
}

function checkViews({ facts, summary }: WorkflowReportInput): Report['checks'] {
  return byName(summary?.checks).map(([name, { passed, failed }]) => ({ workflow: facts.name, name, passed, failed }));
}

function metricViews({ facts, summary }: WorkflowReportInput): readonly MetricView[] {
  return byName(summary?.metrics).map(([name, metric]) => metricView(facts.name, name, metric));
}

function metricView(workflow: string, name: string, metric: MetricCounts): MetricView {
  const head = { workflow, name, kind: metric.kind };
  if (metric.kind === 'count') return { ...head, count: metric.total };
  if (metric.kind === 'rate') return { ...head, count: metric.total, rate: share(metric.hits, metric.total) };
  if (metric.kind === 'trend') return { ...head, count: metric.values.count, latencyMs: latencyOf(metric.values) };
  return { ...head, count: metric.count, min: metric.min, max: metric.max, last: metric.last };
}

function thresholdViews({ facts, summary = new Summary() }: WorkflowReportInput): readonly ThresholdView[] {
  return Object.entries(facts.thresholds).flatMap(([metric, conditions]) => {
    const measured = measuredMetric(metric, summary);
    return conditions.map((condition) => {
      const threshold = parseThreshold(condition);
      const value = measured === undefined ? undefined : thresholdValue(threshold, measured);
      return {
        workflow: facts.name,
        metric,
        expr: `${metric}: ${condition}`,
        ok: thresholdHolds(threshold, value),
        value: value === undefined ? null : rounded(value),
      };
    });
  });
}

function errorViews({ facts, summary }: WorkflowReportInput): Report['errors'] {
  return [...(summary?.errorSamples.values() ?? [])]
    .toSorted((a, b) => b.count - a.count || (a.text < b.text ? -1 : 1))
    .map(({ step, text, place, count }) => ({ workflow: facts.name, step, message: text, place, count }));
}

function byName<V>(map: ReadonlyMap<string, V> | undefined): readonly (readonly [string, V])[] {
  return [...(map ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function latencyOf(histogram: Histogram | undefined): LatencyMs {
  const ms = (us: number): number => rounded(us / 1_000);
  const at = (part: number): number => ms(histogram?.quantileUs(part) ?? 0);
  return {
    min: ms(histogram?.minUs ?? 0),
    mean: ms(histogram?.meanUs ?? 0),
    p50: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
    p999: at(0.999),
    max: ms(histogram?.maxUs ?? 0),
  };
}

/** The rate of a finished job or workflow, in every view. */
export function averageRate(count: number, elapsedMs: number): number {
  return elapsedMs <= 0 ? 0 : rounded((count * 1_000) / elapsedMs);
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

/** Times are measured in microseconds: more digits would be noise. */
function rounded(value: number): number {
  return Math.round(value * 1_000_000) / 1_000_000;
}

function sum<T>(items: readonly T[], value: (item: T) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
