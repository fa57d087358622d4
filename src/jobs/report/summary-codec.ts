/**
 * Encodes summaries between runner, worker and manager. Rejects what exceeds the limit (TOO_LARGE) and never truncates.
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
    'Which counters are not zero, each as the distance from the one before, and its count.',
  ),
  sumUs: field(2, u64, 'Of all values.'),
  minUs: field(3, u32, 'The smallest.'),
  maxUs: field(4, u32, 'The largest.'),
});

const step = record('step', {
  name: field(1, name, 'Name.'),
  failed: field(2, u53, 'How often it went wrong.'),
  durations: field(3, optional(histogram), 'How long it took.'),
});

const check = record('check', {
  name: field(1, name, 'Name.'),
  passed: field(2, u53, 'How often.'),
  failed: field(3, u53, 'How often.'),
});

const metric = record('metric', {
  name: field(1, name, 'Name.'),
  kind: field(2, enumOf('count', 'rate', 'gauge', 'trend'), 'Kind.'),
  total: field(3, optional(u53), 'Count, rate and gauge: how much or how many.'),
  hits: field(4, optional(u53), 'Rate.'),
  values: field(5, optional(list(f64, 4)), 'Gauge: min, max, last, and when that was.'),
  histogram: field(6, optional(histogram), 'Trend.'),
});

const error = record('error', {
  step: field(1, name, 'Where.'),
  text: field(2, text(errorBytesMax * 3), 'What.'),
  place: field(3, text(errorBytesMax), 'The line of the author.'),
  count: field(4, u53, 'How often.'),
});

const count = optional(u53);
const summaryMessage = message({
  kind: 'summary',
  tag: 1,
  carrier: 'stream',
  from: ['worker'],
  bytesMax: jobLimits.summaryBytesMax,
  doc: 'What a unit counted.',
  fields: {
    iterations: field(1, count, 'Ended.'),
    failed: field(2, count, 'Of those.'),
    interrupted: field(3, count, 'Cut off.'),
    requests: field(4, count, 'HTTP.'),
    requestsFailed: field(5, count, 'Of those.'),
    bytesIn: field(6, count, 'HTTP.'),
    bytesOut: field(7, count, 'HTTP.'),
    errors: field(8, count, 'All of them.'),
    dropped: field(9, count, 'Arrivals without a user.'),
    saturated: field(10, optional(bool), 'The generator could not keep up.'),
    lagMaxUs: field(11, count, 'Of the loop.'),
    activeUsMax: field(12, count, 'Of one unit.'),
    http: field(13, optional(histogram), 'Durations of requests.'),
    iterationTimes: field(14, optional(histogram), 'Durations of iterations.'),
    steps: field(15, optional(list(step, stepsMax)), 'By name.'),
    checks: field(16, optional(list(check, checksMax)), 'By name.'),
    metrics: field(17, optional(list(metric, metricsMax)), 'By name.'),
    errorSamples: field(18, optional(list(error, errorsMax)), 'Some of the errors.'),
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

/** Field by field: each unit has one, and to spread objects takes longer than to encode them. */
export function encodeSummary(summary: Summary): Uint8Array {
  return codec.encode({
    kind: 'summary',
    iterations: counted(summary.iterations),
    failed: counted(summary.failed),
    interrupted: counted(summary.interrupted),
    requests: counted(summary.requests),
    requestsFailed: counted(summary.requestsFailed),
    bytesIn: counted(summary.bytesIn),
    bytesOut: counted(summary.bytesOut),
    errors: counted(summary.errors),
    dropped: counted(summary.dropped),
    lagMaxUs: counted(summary.lagMaxUs),
    activeUsMax: counted(summary.activeUsMax),
    saturated: summary.saturated || undefined,
    http: summary.http && histogramOut(summary.http),
    iterationTimes: summary.iterationTimes && histogramOut(summary.iterationTimes),
    steps: listOut(summary.steps, (key, { failed, durations }) => ({
      name: key,
      failed,
      durations: histogramOut(durations),
    })),
    checks: listOut(summary.checks, (key, counts) => ({ name: key, ...counts })),
    metrics: listOut(summary.metrics, metricOut),
    errorSamples: listOut(summary.errorSamples, (_key, sample) => sample),
  });
}

/** Throws a rejection for what is no summary. */
export function decodeSummary(bytes: Uint8Array): Summary {
  const wire = codec.decode(bytes);
  const summary = new Summary();
  for (const key of countNames) summary[key] = wire[key] ?? 0;
  summary.saturated = wire.saturated ?? false;
  summary.http = wire.http && histogramIn(wire.http);
  summary.iterationTimes = wire.iterationTimes && histogramIn(wire.iterationTimes);
  for (const { name: key, failed, durations } of wire.steps ?? []) {
    const counts = new StepCounts();
    counts.failed = failed;
    if (durations !== undefined) counts.durations.merge(histogramIn(durations));
    summary.steps.set(key, counts);
  }
  for (const { name: key, passed, failed } of wire.checks ?? []) summary.checks.set(key, { passed, failed });
  for (const one of wire.metrics ?? []) summary.metrics.set(one.name, metricIn(one));
  for (const sample of wire.errorSamples ?? [])
    summary.errorSamples.set(errorSampleKey(sample.step, sample.text), { ...sample });
  return summary;
}

function counted(count: number): number | undefined {
  return count === 0 ? undefined : Math.round(count);
}

function listOut<V, W>(map: ReadonlyMap<string, V>, out: (key: string, value: V) => W): W[] | undefined {
  if (map.size === 0) return undefined;
  const items: W[] = [];
  for (const [key, value] of map) items.push(out(key, value));
  return items;
}

function histogramOut(from: Histogram): WireHistogram | undefined {
  if (from.count === 0) return undefined;
  const { buckets, sumUs, minUs, maxUs } = from.toSparse();
  return { buckets: distancesOf(buckets), sumUs, minUs, maxUs };
}

function histogramIn({ buckets, sumUs, minUs, maxUs }: WireHistogram): Histogram {
  return Histogram.fromSparse({ buckets: placesOf(buckets), sumUs, minUs, maxUs });
}

/** Neighbours are near: a distance takes one byte, a place two. */
function distancesOf(buckets: readonly number[]): number[] {
  let last = 0;
  return buckets.map((value, at) => {
    if (at % 2 === 1) return value;
    const distance = value - last;
    last = value;
    return distance;
  });
}

function placesOf(buckets: readonly number[]): number[] {
  let last = 0;
  return buckets.map((value, at) => {
    if (at % 2 === 1) return value;
    last += value;
    return last;
  });
}

function metricOut(key: string, counts: MetricCounts): WireMetric {
  const none = { total: undefined, hits: undefined, values: undefined, histogram: undefined };
  const out = { ...none, name: key, kind: counts.kind };
  if (counts.kind === 'count') return { ...out, total: counts.total };
  if (counts.kind === 'rate') return { ...out, total: counts.total, hits: counts.hits };
  if (counts.kind === 'trend') return { ...out, histogram: histogramOut(counts.values) };
  return { ...out, total: counts.count, values: [counts.min, counts.max, counts.last, counts.lastAtMs] };
}

function metricIn({ kind, total = 0, hits = 0, values = [], histogram: wire }: WireMetric): MetricCounts {
  if (kind === 'count') return { kind, total };
  if (kind === 'rate') return { kind, hits, total };
  if (kind === 'trend') return { kind, values: wire === undefined ? new Histogram() : histogramIn(wire) };
  const [min = 0, max = 0, last = 0, lastAtMs = 0] = values;
  return { kind, count: total, min, max, last, lastAtMs };
}
