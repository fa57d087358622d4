/** The report of a job as text for people: how it ended, what was done how fast, what was promised, what went wrong. */
import { unreachable } from '../base/assert.ts';
import type { MetricView, Report } from '../jobs/report/report.ts';
import { bytesText, countText, elapsedText, latencyText, percentText, rateText } from './amounts.ts';
import { incidentText } from './live-view.ts';
import { table } from './output.ts';
import { paint, plain } from './terminal.ts';

const incidentsMax = 50;
const errorsMax = 10;

export function reportText(report: Report): string {
  const { totals } = report;
  const head = [
    `${plain(report.jobId)}  ${statusText(report.status)}  ${elapsedText(report.elapsedMs)}`,
    [
      `${countText(totals.completed)} completed, ${countText(totals.failed)} failed`,
      ...(totals.requests > 0
        ? [`${countText(totals.requests)} requests, ${bytesText(totals.bytesIn)} in, ${bytesText(totals.bytesOut)} out`]
        : []),
      `${countText(report.attempts.length)} attempts`,
    ].join(';  '),
  ].join('\n');
  const parts = [head, errorText(report), stepsText(report), checksText(report)];
  return [...parts, metricsText(report), thresholdsText(report), incidentsText(report), generatorText(report)]
    .filter((part) => part !== '')
    .join('\n\n');
}

function statusText(status: string): string {
  return paint(status === 'COMPLETED' ? 'green' : 'red', status);
}

function errorText({ error, workflows, errors }: Report): string {
  const first = error === undefined ? [] : [`${paint('red', error.code)}  ${plain(error.message)}`];
  const own = workflows.flatMap(({ name, error: one }) =>
    one === undefined || one.message === error?.message
      ? []
      : [`${plain(name)}: ${paint('red', one.code)}  ${plain(one.message)}`],
  );
  const counted = errors.slice(0, errorsMax).map(({ workflow, step, message, place, count }) => {
    const where = place === '' ? '' : ` (${plain(place)})`;
    return `${countText(count)} x  ${plain(workflow)}/${plain(step)}: ${plain(message)}${where}`;
  });
  return [...first, ...own, ...counted].join('\n');
}

function stepsText({ steps }: Report): string {
  if (steps.length === 0) return '';
  const titles = ['WORKFLOW', 'STEP', 'COUNT', 'FAILED', 'RATE', 'MEAN', 'P50', 'P95', 'P99', 'P99.9', 'MAX'];
  const rows = steps.map(({ workflow, step, count, failed, ratePerSecond, latencyMs }) => [
    ...[plain(workflow), plain(step), countText(count), countText(failed), rateText(ratePerSecond)],
    ...([latencyMs.mean, latencyMs.p50, latencyMs.p95, latencyMs.p99, latencyMs.p999, latencyMs.max] as const).map(
      latencyText,
    ),
  ]);
  return table(titles, rows);
}

function checksText({ checks }: Report): string {
  if (checks.length === 0) return '';
  const rows = checks.map(({ name, passed, failed }) => [plain(name), countText(passed), countText(failed)]);
  return table(['CHECK', 'PASSED', 'FAILED'], rows);
}

function metricsText({ metrics }: Report): string {
  if (metrics.length === 0) return '';
  return table(
    ['METRIC', 'KIND', 'VALUE'],
    metrics.map((metric) => [plain(metric.name), metric.kind, metricText(metric)]),
  );
}

export function metricText({ kind, count, rate, min, max, last, latencyMs }: MetricView): string {
  switch (kind) {
    case 'count':
      return countText(count);
    case 'rate':
      return `${percentText(rate ?? 0)} of ${countText(count)}`;
    case 'gauge':
      return `last ${last ?? '-'}, from ${min ?? '-'} to ${max ?? '-'}`;
    case 'trend':
      return latencyMs === undefined
        ? '-'
        : `p50 ${latencyText(latencyMs.p50)}, p99 ${latencyText(latencyMs.p99)}, max ${latencyText(latencyMs.max)}`;
    default:
      return unreachable(kind);
  }
}

function thresholdsText({ thresholds }: Report): string {
  return thresholds
    .map(({ expr, ok, value }) => {
      const verdict = ok ? paint('green', 'ok    ') : paint('red', 'FAILED');
      return `${verdict}  ${plain(expr)}  (${value === null ? 'nothing was measured' : String(value)})`;
    })
    .join('\n');
}

function incidentsText({ incidents }: Report): string {
  if (incidents.length === 0) return '';
  const lines = incidents.slice(0, incidentsMax).map((one) => `  ${incidentText(one)}`);
  const more = incidents.length - lines.length;
  return ['What went wrong, and what came of it:', ...lines, ...(more > 0 ? [`  and ${more} more`] : [])].join('\n');
}

function generatorText({ generator }: Report): string {
  return generator.saturated
    ? paint('yellow', 'The workers were at their limit: the numbers say more about them than about the target.')
    : '';
}
