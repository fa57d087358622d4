/** Renders a job's report as text for a terminal, without control characters from the job. */
import { unreachable } from '../../base/assert.ts';
import type { LatencyMs, MetricView, Report } from '../../jobs/report/report.ts';
import { itemErrorText } from '../../jobs/report/item-failures.ts';
import {
  formatAmount,
  formatBytes,
  formatCount,
  formatElapsed,
  formatLatency,
  formatPercent,
  formatRate,
} from '../output/amounts.ts';
import { incidentText } from './live-view.ts';
import { renderTable } from '../output/render.ts';
import { styled, stripControls } from '../output/terminal.ts';

const incidentsMax = 50;
const errorsMax = 10;
const failuresShownMax = 5;

export const saturatedText =
  'The workers could not generate the requested load: the latencies measure the workers, not only the target.';

export function formatReport(report: Report): string {
  const { totals } = report;
  const head = [
    `${stripControls(report.jobId)}  ${statusText(report.status)}  ${formatElapsed(report.elapsedMs)}`,
    [
      `${formatCount(totals.completed)} completed, ${formatCount(totals.failed)} failed`,
      ...(totals.requests > 0 ? [`${formatAmount(totals.requests, 'request')}, ${trafficText(totals)}`] : []),
      formatAmount(report.attempts.length, 'attempt'),
    ].join(';  '),
  ].join('\n');
  const parts = [
    head,
    partialText(report),
    errorText(report),
    failuresText(report),
    stepsText(report),
    checksText(report),
  ];
  return [...parts, metricsText(report), thresholdsText(report), incidentsText(report), generatorText(report)]
    .filter((part) => part !== '')
    .join('\n\n');
}

function statusText(status: string): string {
  return styled(status === 'COMPLETED' ? 'green' : status === 'PARTIAL' ? 'yellow' : 'red', status);
}

function trafficText({ bytesIn, bytesOut }: Report['totals']): string {
  return `${formatBytes(bytesIn)} in, ${formatBytes(bytesOut)} out`;
}

/** What the numbers of a cancelled load test are. */
export function partialText({ partial }: Pick<Report, 'partial'>): string {
  if (partial === null) return '';
  const { unitsReported, units } = partial;
  if (unitsReported === 0) return 'The load test was cancelled; none of its units reported what it had measured.';
  const missing = unitsReported === units ? '' : `, from ${unitsReported} of ${formatAmount(units, 'unit')}`;
  return `Partial: the load test was cancelled; these are its measurements until then${missing}.`;
}

function errorText({ status, error, workflows, errors, failures }: Report): string {
  const first =
    error === undefined
      ? []
      : [`${styled(status === 'PARTIAL' ? 'yellow' : 'red', error.code)}  ${stripControls(error.message)}`];
  const own = workflows.flatMap(({ name, error: one }) =>
    one === undefined || error?.message === `${name}: ${one.message}`
      ? []
      : [`${stripControls(name)}: ${styled('red', one.code)}  ${stripControls(one.message)}`],
  );
  const counted = errors.slice(0, errorsMax).map(({ workflow, step, message, place, count }) => {
    const where = place === '' ? '' : ` (${stripControls(place)})`;
    const what = `${stripControls(workflow)}/${stripControls(step)}: ${stripControls(message)}${where}`;
    return `${formatCount(count)} x  ${what}`;
  });
  const rest = errors.slice(errorsMax).reduce((sum, { count }) => sum + count, 0);
  const others = failures.reduce((sum, { other }) => sum + other, rest);
  const more = others === 0 ? [] : [`${formatCount(others)} x  other messages`];
  return [...first, ...own, ...counted, ...more].join('\n');
}

/** The first failed items of each batch. */
function failuresText({ failures }: Report): string {
  const lines = failures.flatMap(({ workflow, count, items }) => {
    const shown = items.slice(0, failuresShownMax).map(({ index, error }) => {
      const where = error.at === undefined ? '' : ` (${stripControls(error.at)})`;
      return `  ${index}  ${stripControls(itemErrorText(error))}${where}`;
    });
    const listed = count > shown.length ? ` (${formatCount(shown.length)} of ${formatCount(count)} are listed)` : '';
    return [`Failed items of ${stripControls(workflow)}${listed}:`, ...shown];
  });
  return lines.join('\n');
}

function stepsText({ steps }: Report): string {
  if (steps.length === 0) return '';
  const titles = ['WORKFLOW', 'STEP', 'COUNT', 'FAILED', 'RATE', 'MEAN', 'P50', 'P95', 'P99', 'P99.9', 'MAX'];
  const rows = steps.map(({ workflow, step, count, failed, ratePerSecond, latencyMs }) => [
    ...[
      stripControls(workflow),
      stripControls(step),
      formatCount(count),
      formatCount(failed),
      formatRate(ratePerSecond),
    ],
    ...[latencyMs.mean, latencyMs.p50, latencyMs.p95, latencyMs.p99, latencyMs.p999, latencyMs.max].map((ms) =>
      formatLatency(count === 0 ? Number.NaN : ms),
    ),
  ]);
  return renderTable(titles, rows);
}

function checksText({ checks }: Report): string {
  if (checks.length === 0) return '';
  const rows = checks.map(({ name, passed, failed }) => [
    stripControls(name),
    formatCount(passed),
    formatCount(failed),
  ]);
  return renderTable(['CHECK', 'PASSED', 'FAILED'], rows);
}

function metricsText({ metrics }: Report): string {
  if (metrics.length === 0) return '';
  return renderTable(
    ['METRIC', 'KIND', 'VALUE'],
    metrics.map((metric) => [stripControls(metric.name), metric.kind, formatMetric(metric)]),
  );
}

function trendText({ p50, p99, max }: LatencyMs): string {
  return `p50 ${formatLatency(p50)}, p99 ${formatLatency(p99)}, max ${formatLatency(max)}`;
}

export function formatMetric({ kind, count, rate, min, max, last, latencyMs }: MetricView): string {
  switch (kind) {
    case 'count':
      return formatCount(count);
    case 'rate':
      return `${formatPercent(rate ?? 0)} of ${formatCount(count)}`;
    case 'gauge':
      return `last ${last ?? '-'}, from ${min ?? '-'} to ${max ?? '-'}`;
    case 'trend':
      return latencyMs === undefined || count === 0 ? '-' : trendText(latencyMs);
    default:
      return unreachable(kind);
  }
}

function thresholdsText({ thresholds }: Report): string {
  return thresholds
    .map(({ expr, ok, value }) => {
      const verdict = ok ? styled('green', 'ok    ') : styled('red', 'FAILED');
      return `${verdict}  ${stripControls(expr)}  (${value === null ? 'no measurements' : String(value)})`;
    })
    .join('\n');
}

function incidentsText({ incidents }: Report): string {
  if (incidents.length === 0) return '';
  const lines = incidents.slice(0, incidentsMax).map((one) => `  ${incidentText(one)}`);
  const more = incidents.length - lines.length;
  return ['Incidents:', ...lines, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n');
}

function generatorText({ generator }: Report): string {
  return generator.saturated ? styled('yellow', saturatedText) : '';
}
