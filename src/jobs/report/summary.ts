/**
 * Counts everything that a unit measures. Merging is exact and independent of the order, so the summary of a job equals
 * one counter over all units. Names are bounded (bounds.ts): a unit refuses more, and a merge keeps the smallest names,
 * because a choice by arrival would depend on the order. Every error is counted, also one that is not listed.
 */
import { RemusterError } from '../../base/errors.ts';
import { Histogram } from '../../base/histogram.ts';
import { checksMax, errorsMax, mergedNamesMax, metricsMax, nameBytesMax, stepsMax } from './bounds.ts';

export class StepCounts {
  failed = 0;
  readonly durations = new Histogram();
}

export type CheckCounts = { passed: number; failed: number };
export type GaugeCounts = { count: number; min: number; max: number; last: number; lastAtMs: number };
export type MetricCounts =
  | { readonly kind: 'count'; total: number }
  | { readonly kind: 'rate'; hits: number; total: number }
  | ({ readonly kind: 'gauge' } & GaugeCounts)
  | { readonly kind: 'trend'; readonly values: Histogram };

export type ErrorSample = {
  /** Step, `each`, or a name in parentheses for code outside of steps. */
  readonly step: string;
  readonly text: string;
  /** File and line of the author, if known. */
  place: string;
  count: number;
};

export class Summary {
  /** Iterations or items that ended. */
  iterations = 0;
  /** Of those: iterations or items with an error. */
  failed = 0;
  /** Iterations that were cut off at the end. */
  interrupted = 0;
  requests = 0;
  requestsFailed = 0;
  bytesIn = 0;
  bytesOut = 0;
  errors = 0;
  /** Open model: arrivals for which no user was free. */
  dropped = 0;
  /** The load generator could not keep up: the measured load is not the requested one. */
  saturated = false;
  /** Largest lag of the event loop of a runner. */
  lagMaxUs = 0;
  /** Active time of the longest unit. */
  activeUsMax = 0;
  readonly steps = new Map<string, StepCounts>();
  readonly checks = new Map<string, CheckCounts>();
  readonly metrics = new Map<string, MetricCounts>();
  readonly errorSamples = new Map<string, ErrorSample>();
  /** Created with the first request. */
  http: Histogram | undefined;
  /** Whole iterations without think time, or items; in the open model counted from the scheduled start. */
  iterationTimes: Histogram | undefined;

  step(name: string): StepCounts {
    return this.steps.get(name) ?? addNamed(this.steps, name, new StepCounts(), stepsMax, 'steps');
  }

  check(name: string, isOk: boolean): void {
    const counts = this.checks.get(name) ?? addNamed(this.checks, name, { passed: 0, failed: 0 }, checksMax, 'checks');
    if (isOk) counts.passed += 1;
    else counts.failed += 1;
  }

  /** The metric of that name; BAD_ARGUMENT if it has another kind. */
  metric<K extends MetricCounts['kind']>(name: string, kind: K): MetricCounts & { readonly kind: K } {
    const metric = this.metrics.get(name) ?? addNamed(this.metrics, name, createMetric(kind), metricsMax, 'metrics');
    if (metric.kind !== kind)
      throw new RemusterError('BAD_ARGUMENT', `metric "${name}" is a ${metric.kind} and cannot be used as a ${kind}`);
    return metric as MetricCounts & { readonly kind: K };
  }

  /** Calls `placeOf` only for a new error, because finding the line is slow. */
  error(step: string, text: string, placeOf: () => string): void {
    this.errors += 1;
    const key = errorSampleKey(step, text);
    const sample = boundedGet(this.errorSamples, key, () => ({ step, text, place: placeOf(), count: 0 }), errorsMax);
    if (sample !== undefined) sample.count += 1;
  }

  /** Merges everything without names. */
  mergeCounts(other: Summary): void {
    this.iterations += other.iterations;
    this.failed += other.failed;
    this.interrupted += other.interrupted;
    this.requests += other.requests;
    this.requestsFailed += other.requestsFailed;
    this.bytesIn += other.bytesIn;
    this.bytesOut += other.bytesOut;
    this.errors += other.errors;
    this.dropped += other.dropped;
    this.saturated ||= other.saturated;
    this.lagMaxUs = Math.max(this.lagMaxUs, other.lagMaxUs);
    this.activeUsMax = Math.max(this.activeUsMax, other.activeUsMax);
    this.http = mergeHistograms(this.http, other.http);
    this.iterationTimes = mergeHistograms(this.iterationTimes, other.iterationTimes);
  }

  merge(other: Summary): void {
    this.mergeCounts(other);
    for (const [name, { failed, durations }] of other.steps) {
      const mine = boundedGet(this.steps, name, () => new StepCounts(), mergedNamesMax);
      if (mine === undefined) continue;
      mine.failed += failed;
      mine.durations.merge(durations);
    }
    for (const [name, { passed, failed }] of other.checks) {
      const mine = boundedGet(this.checks, name, () => ({ passed: 0, failed: 0 }), mergedNamesMax);
      if (mine === undefined) continue;
      mine.passed += passed;
      mine.failed += failed;
    }
    for (const [name, metric] of other.metrics) this.#mergeMetric(name, metric);
    for (const [key, sample] of other.errorSamples) this.#mergeError(key, sample);
  }

  /** If units disagree on the kind of a metric, which only a broken runner can cause, the first kind by name counts. */
  #mergeMetric(name: string, metric: MetricCounts): void {
    const mine = boundedGet(this.metrics, name, () => createMetric(metric.kind), mergedNamesMax);
    if (mine === undefined || mine.kind < metric.kind) return;
    if (mine.kind === metric.kind) return mergeMetric(mine, metric);
    const fresh = createMetric(metric.kind);
    mergeMetric(fresh, metric);
    this.metrics.set(name, fresh);
  }

  #mergeError(key: string, { step, text, place, count }: ErrorSample): void {
    const known = boundedGet(this.errorSamples, key, () => ({ step, text, place, count: 0 }), errorsMax);
    if (known === undefined) return;
    known.count += count;
    if (place < known.place) known.place = place;
  }
}

export function mergeSummaries(summaries: Iterable<Summary>): Summary {
  const all = new Summary();
  for (const summary of summaries) all.merge(summary);
  return all;
}

function addNamed<V>(map: Map<string, V>, name: string, value: V, max: number, what: string): V {
  if (map.size >= max) throw new RemusterError('TOO_LARGE', `more than ${max} ${what}: use fewer names`);
  if (typeof name !== 'string' || name === '' || name.length > nameBytesMax || !name.isWellFormed())
    throw new RemusterError('BAD_ARGUMENT', `names of ${what} must have 1 to ${nameBytesMax} characters`);
  map.set(name, value);
  return value;
}

function createMetric(kind: MetricCounts['kind']): MetricCounts {
  if (kind === 'count') return { kind, total: 0 };
  if (kind === 'rate') return { kind, hits: 0, total: 0 };
  if (kind === 'trend') return { kind, values: new Histogram() };
  return { kind, count: 0, min: Infinity, max: -Infinity, last: -Infinity, lastAtMs: -Infinity };
}

function mergeMetric(mine: MetricCounts, other: MetricCounts): void {
  if (mine.kind === 'count' && other.kind === 'count') mine.total += other.total;
  else if (mine.kind === 'rate' && other.kind === 'rate') {
    mine.hits += other.hits;
    mine.total += other.total;
  } else if (mine.kind === 'trend' && other.kind === 'trend') mine.values.merge(other.values);
  else if (mine.kind === 'gauge' && other.kind === 'gauge') mergeGauge(mine, other);
}

/** Of two values with the same time the larger one counts as the last. */
export function mergeGauge(mine: GaugeCounts, other: Readonly<GaugeCounts>): void {
  mine.count += other.count;
  mine.min = Math.min(mine.min, other.min);
  mine.max = Math.max(mine.max, other.max);
  if (other.lastAtMs < mine.lastAtMs || (other.lastAtMs === mine.lastAtMs && other.last <= mine.last)) return;
  mine.last = other.last;
  mine.lastAtMs = other.lastAtMs;
}

function mergeHistograms(mine: Histogram | undefined, other: Histogram | undefined): Histogram | undefined {
  if (other === undefined) return mine;
  const all = mine ?? new Histogram();
  all.merge(other);
  return all;
}

export function errorSampleKey(step: string, text: string): string {
  return `${step}\n${text}`;
}

/**
 * The value of that name, created if it is new; beyond `max` names only the smallest are kept. A dropped name never
 * returns, because the largest kept name only decreases: so the counts of kept names are exact.
 */
function boundedGet<V>(map: Map<string, V>, name: string, make: () => V, max: number): V | undefined {
  const known = map.get(name);
  if (known !== undefined) return known;
  const last = map.size < max ? undefined : largest(map);
  if (last !== undefined && name > last) return undefined;
  if (last !== undefined) map.delete(last);
  const fresh = make();
  map.set(name, fresh);
  return fresh;
}

function largest(map: ReadonlyMap<string, unknown>): string {
  let out = '';
  for (const key of map.keys()) if (key > out) out = key;
  return out;
}
