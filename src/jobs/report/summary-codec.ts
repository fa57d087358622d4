/**
 * Encodes summaries between runner, worker and manager. Rejects a summary above the limit (TOO_LARGE); never truncates.
 */
import { Histogram } from '../../base/histogram.ts';
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, optional, record } from '../../messages/codec/compound.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { bool, f64, enumOf, u32, u53, u64 } from '../../messages/codec/numbers.ts';
import { text } from '../../messages/codec/strings.ts';
import { jobLimits } from '../limits.ts';
import { checksMax, errorBytesMax, errorsMax, metricsMax, nameBytesMax, stepsMax } from './bounds.ts';
import { type MetricCounts, StepCounts, Summary, errorSampleKey } from './summary.ts';

const name = text(nameBytesMax * 3);
const bucketsMax = 5_000;

const histogram = record('histogram', {
  buckets: field(
    1,
    list(u53, bucketsMax),
    'Pairs of a bucket that is not zero, as the distance from the one before, and its count.',
  ),
  sumUs: field(2, u64, 'Sum of all values.'),
  minUs: field(3, u32, 'Smallest value.'),
  maxUs: field(4, u32, 'Largest value.'),
});

const step = record('step', {
  name: field(1, name, 'Name.'),
  failed: field(2, u53, 'Number of failures.'),
  durations: field(3, optional(histogram), 'Durations.'),
});

const check = record('check', {
  name: field(1, name, 'Name.'),
  passed: field(2, u53, 'Number of passes.'),
  failed: field(3, u53, 'Number of failures.'),
});

const metric = record('metric', {
  name: field(1, name, 'Name.'),
  kind: field(2, enumOf('count', 'rate', 'gauge', 'trend'), 'Kind.'),
  total: field(3, optional(u53), 'Count: sum; rate and gauge: number of values.'),
  hits: field(4, optional(u53), 'Rate: number of hits.'),
  values: field(5, optional(list(f64, 4)), 'Gauge: min, max, last value and its time.'),
  histogram: field(6, optional(histogram), 'Trend: histogram of the values.'),
});

const error = record('error', {
  step: field(1, name, 'Step, `each`, or the place outside of steps.'),
  text: field(2, text(errorBytesMax * 3), 'Error text.'),
  place: field(3, text(errorBytesMax), 'File and line of the author.'),
  count: field(4, u53, 'Number of occurrences.'),
});

const count = optional(u53);
const summaryMessage = message({
  kind: 'summary',
  tag: 1,
  carrier: 'stream',
  from: ['worker'],
  bytesMax: jobLimits.summaryBytesMax,
  doc: 'Counters and histograms of a unit.',
  fields: {
    iterations: field(1, count, 'Iterations or items that ended.'),
    failed: field(2, count, 'Iterations or items that failed.'),
    interrupted: field(3, count, 'Iterations that were cut off.'),
    requests: field(4, count, 'HTTP requests.'),
    requestsFailed: field(5, count, 'HTTP requests that failed.'),
    bytesIn: field(6, count, 'Bytes received over HTTP.'),
    bytesOut: field(7, count, 'Bytes sent over HTTP.'),
    errors: field(8, count, 'Number of all errors.'),
    dropped: field(9, count, 'Arrivals for which no user was free.'),
    saturated: field(10, optional(bool), 'The generator could not keep up.'),
    lagMaxUs: field(11, count, 'Largest lag of the event loop.'),
    activeUsMax: field(12, count, 'Longest active time of one unit.'),
    http: field(13, optional(histogram), 'Durations of HTTP requests.'),
    iterationTimes: field(14, optional(histogram), 'Durations of iterations.'),
    steps: field(15, optional(list(step, stepsMax)), 'Steps by name.'),
    checks: field(16, optional(list(check, checksMax)), 'Checks by name.'),
    metrics: field(17, optional(list(metric, metricsMax)), 'Metrics of the author by name.'),
    errorSamples: field(18, optional(list(error, errorsMax)), 'Distinct errors, at most 100.'),
  },
});

const codec = createCodec([summaryMessage]);
type Wire = MessageOf<readonly [typeof summaryMessage]>;
type WireHistogram = NonNullable<Wire['http']>;
type WireMetric = NonNullable<Wire['metrics']>[number];

const countNames = [
  'iterations',
  'failed',
  'interrupted',
  'requests',
  'requestsFailed',
  'bytesIn',
  'bytesOut',
  'errors',
  'dropped',
  'lagMaxUs',
  'activeUsMax',
] as const;

/** No spread: every unit has a summary, and a spread takes longer than the encoding. */
export function encodeSummary(summary: Summary): Uint8Array {
  return codec.encode({
    kind: 'summary',
    iterations: encodeCount(summary.iterations),
    failed: encodeCount(summary.failed),
    interrupted: encodeCount(summary.interrupted),
    requests: encodeCount(summary.requests),
    requestsFailed: encodeCount(summary.requestsFailed),
    bytesIn: encodeCount(summary.bytesIn),
    bytesOut: encodeCount(summary.bytesOut),
    errors: encodeCount(summary.errors),
    dropped: encodeCount(summary.dropped),
    lagMaxUs: encodeCount(summary.lagMaxUs),
    activeUsMax: encodeCount(summary.activeUsMax),
    saturated: summary.saturated || undefined,
    http: summary.http && encodeHistogram(summary.http),
    iterationTimes: summary.iterationTimes && encodeHistogram(summary.iterationTimes),
    steps: encodeMap(summary.steps, (key, { failed, durations }) => ({
      name: key,
      failed,
      durations: encodeHistogram(durations),
    })),
    checks: encodeMap(summary.checks, (key, counts) => ({ name: key, ...counts })),
    metrics: encodeMap(summary.metrics, encodeMetric),
    errorSamples: encodeMap(summary.errorSamples, (_key, sample) => sample),
  });
}

/** Throws a decode error for an invalid summary. */
export function decodeSummary(bytes: Uint8Array): Summary {
  const wire = codec.decode(bytes);
  const summary = new Summary();
  for (const key of countNames) summary[key] = wire[key] ?? 0;
  summary.saturated = wire.saturated ?? false;
  summary.http = wire.http && decodeHistogram(wire.http);
  summary.iterationTimes = wire.iterationTimes && decodeHistogram(wire.iterationTimes);
  for (const { name: key, failed, durations } of wire.steps ?? []) {
    const counts = new StepCounts();
    counts.failed = failed;
    if (durations !== undefined) counts.durations.merge(decodeHistogram(durations));
    summary.steps.set(key, counts);
  }
  for (const { name: key, passed, failed } of wire.checks ?? []) summary.checks.set(key, { passed, failed });
  for (const one of wire.metrics ?? []) summary.metrics.set(one.name, decodeMetric(one));
  for (const sample of wire.errorSamples ?? [])
    summary.errorSamples.set(errorSampleKey(sample.step, sample.text), { ...sample });
  return summary;
}

/** Merges the counts of an encoded summary; one that is absent or unreadable counts as nothing. */
export function mergeEncodedCounts(sum: Summary, bytes: Uint8Array | undefined): void {
  if (bytes === undefined) return;
  try {
    sum.mergeCounts(decodeSummary(bytes));
  } catch {
    // Unreadable.
  }
}

function encodeCount(count: number): number | undefined {
  return count === 0 ? undefined : Math.round(count);
}

function encodeMap<V, W>(map: ReadonlyMap<string, V>, out: (key: string, value: V) => W): W[] | undefined {
  if (map.size === 0) return undefined;
  const items: W[] = [];
  for (const [key, value] of map) items.push(out(key, value));
  return items;
}

function encodeHistogram(from: Histogram): WireHistogram | undefined {
  if (from.count === 0) return undefined;
  const { buckets, sumUs, minUs, maxUs } = from.toSparse();
  return { buckets: distancesOf(buckets), sumUs, minUs, maxUs };
}

function decodeHistogram({ buckets, sumUs, minUs, maxUs }: WireHistogram): Histogram {
  return Histogram.fromSparse({ buckets: indexesOf(buckets), sumUs, minUs, maxUs });
}

/** Used buckets are close together: a distance takes one byte, an index two. */
function distancesOf(buckets: readonly number[]): number[] {
  let last = 0;
  return buckets.map((value, at) => {
    if (at % 2 === 1) return value;
    const distance = value - last;
    last = value;
    return distance;
  });
}

function indexesOf(buckets: readonly number[]): number[] {
  let last = 0;
  return buckets.map((value, at) => {
    if (at % 2 === 1) return value;
    last += value;
    return last;
  });
}

function encodeMetric(key: string, counts: MetricCounts): WireMetric {
  const none = { total: undefined, hits: undefined, values: undefined, histogram: undefined };
  const out = { ...none, name: key, kind: counts.kind };
  if (counts.kind === 'count') return { ...out, total: counts.total };
  if (counts.kind === 'rate') return { ...out, total: counts.total, hits: counts.hits };
  if (counts.kind === 'trend') return { ...out, histogram: encodeHistogram(counts.values) };
  return { ...out, total: counts.count, values: [counts.min, counts.max, counts.last, counts.lastAtMs] };
}

function decodeMetric({ kind, total = 0, hits = 0, values = [], histogram: wire }: WireMetric): MetricCounts {
  if (kind === 'count') return { kind, total };
  if (kind === 'rate') return { kind, hits, total };
  if (kind === 'trend') return { kind, values: wire === undefined ? new Histogram() : decodeHistogram(wire) };
  const [min = 0, max = 0, last = 0, lastAtMs = 0] = values;
  return { kind, count: total, min, max, last, lastAtMs };
}
