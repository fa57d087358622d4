/** Renders a job's report as one self-contained HTML page. Everything that came from the job is escaped. */
import type { Report } from '../../jobs/report/report.ts';
import type { WorkflowFailures } from '../../jobs/report/report-failures.ts';
import { itemErrorText } from '../../jobs/report/item-failures.ts';
import { formatAmount, formatBytes, formatCount, formatElapsed, formatLatency, formatRate } from '../output/amounts.ts';
import type { ProgressSample } from './live-view.ts';
import { formatMetric, partialText, saturatedText } from './report-text.ts';

const plotWidth = 720;
const plotHeight = 160;

const css = `
:root { color-scheme: light dark; --line: #8884; --accent: #2a7de1; --bad: #d0342c; --good: #2e8b57; --half: #b8860b; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, table.text :is(th, td) { text-align: left; }
.tiles { display: flex; flex-wrap: wrap; gap: 1rem; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem 1rem; }
.tile b { display: block; font-size: 1.3rem; }
.bad { color: var(--bad); } .good { color: var(--good); } .half { color: var(--half); }
svg { width: 100%; height: auto; border: 1px solid var(--line); border-radius: .5rem; }
svg path { fill: none; stroke: var(--accent); stroke-width: 1.5; } svg path.second { stroke: var(--bad); }
svg text { font-size: 11px; fill: currentColor; }
`;

export function renderReportPage(report: Report, samples: readonly ProgressSample[]): string {
  const sections = [
    tiles(report),
    report.partial === null ? '' : `<p class="half">${safe(partialText(report))}</p>`,
    samples.length > 1 ? plots(samples) : '',
    section('Steps', steps(report)),
    section('Errors', errors(report)),
    ...report.failures.map((one) => section(`Failed items of ${one.workflow}`, failedItems(one))),
    section('Checks', checks(report)),
    section('Metrics', metrics(report)),
    section('Thresholds', thresholds(report)),
    section('Incidents', incidents(report)),
    report.generator.saturated ? `<p class="bad">${saturatedText}</p>` : '',
  ];
  const title = `Report of ${safe(report.jobId)}`;
  const policy = `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">`;
  const viewport = '<meta name="viewport" content="width=device-width">';
  const head = `<meta charset="utf-8">${policy}${viewport}<title>${title}</title><style>${css}</style>`;
  const body = sections.filter(Boolean).join('\n');
  return `<!doctype html>\n<html lang="en"><head>${head}</head>\n<body>\n${body}\n</body></html>\n`;
}

/** Escapes text for HTML; control characters except line ends and tabs become '?'. */
function safe(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": '#39' };
  // oxlint-disable-next-line no-control-regex
  const shown = text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '?');
  return shown.replaceAll(/[&<>"']/g, (character) => `&${names[character] ?? ''};`);
}

function tiles({ jobId, status, elapsedMs, totals, attempts, error }: Report): string {
  const tile = (name: string, value: string): string => `<div class="tile"><b>${safe(value)}</b>${safe(name)}</div>`;
  const mood = status === 'COMPLETED' ? 'good' : status === 'PARTIAL' ? 'half' : 'bad';
  const why = error === undefined ? '' : `<p class="bad">${safe(error.code)}: ${safe(error.message)}</p>`;
  return `<h1>${safe(jobId)} <span class="${mood}">${safe(status)}</span></h1>${why}<div class="tiles">${[
    tile('elapsed', formatElapsed(elapsedMs)),
    tile('completed', formatCount(totals.completed)),
    tile('failed', formatCount(totals.failed)),
    tile('requests', formatCount(totals.requests)),
    tile('in', formatBytes(totals.bytesIn)),
    tile('out', formatBytes(totals.bytesOut)),
    tile('attempts', formatCount(attempts.length)),
  ].join('')}</div>`;
}

function plots(samples: readonly ProgressSample[]): string {
  const rate = plot([samples.map(({ elapsedMs, ratePerSecond }) => [elapsedMs, ratePerSecond])], formatRate);
  const latency = plot(
    (['p50', 'p99'] as const).map((name) =>
      samples.flatMap((sample) => (sample[name] === undefined ? [] : [[sample.elapsedMs, sample[name]] as const])),
    ),
    formatLatency,
  );
  return `<h2>Rate</h2>${rate}<h2>Latency, p50 and p99</h2>${latency}`;
}

/** Lines over one time axis; the label is the value of the top edge. */
function plot(lines: readonly (readonly (readonly [number, number])[])[], label: (value: number) => string): string {
  const points = lines.flat();
  const lastMs = Math.max(1, ...points.map(([x]) => x));
  const most = Math.max(...points.map(([, y]) => y), Number.MIN_VALUE);
  const paths = lines.map((line, i) => {
    const steps = line.map(([x, y], at) => {
      const place = `${((x / lastMs) * plotWidth).toFixed(1)},${(plotHeight * (1 - y / most)).toFixed(1)}`;
      return `${at === 0 ? 'M' : 'L'}${place}`;
    });
    return `<path${i === 0 ? '' : ' class="second"'} d="${steps.join('')}"/>`;
  });
  const labels = [
    `<text x="4" y="12">${safe(label(most))}</text>`,
    `<text x="${plotWidth - 60}" y="${plotHeight - 4}">${safe(formatElapsed(lastMs))}</text>`,
  ].join('');
  return `<svg viewBox="0 0 ${plotWidth} ${plotHeight}" role="img">${paths.join('')}${labels}</svg>`;
}

function section(title: string, body: string): string {
  return body === '' ? '' : `<h2>${safe(title)}</h2>${body}`;
}

function grid(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  kind: 'numbers' | 'text' = 'numbers',
): string {
  if (rows.length === 0) return '';
  const cells = (tag: 'td' | 'th', row: readonly string[]): string =>
    `<tr>${row.map((cell) => `<${tag}>${safe(cell)}</${tag}>`).join('')}</tr>`;
  return `<table class="${kind}">${cells('th', titles)}${rows.map((row) => cells('td', row)).join('')}</table>`;
}

function steps({ steps: rows }: Report): string {
  const titles = ['Step', 'Count', 'Failed', 'Rate', 'Mean', 'p50', 'p90', 'p95', 'p99', 'p99.9', 'Max'];
  return grid(
    titles,
    rows.map(({ workflow, step, count, failed, ratePerSecond, latencyMs: ms }) => [
      ...[`${workflow} / ${step}`, formatCount(count), formatCount(failed), formatRate(ratePerSecond)],
      ...[ms.mean, ms.p50, ms.p90, ms.p95, ms.p99, ms.p999, ms.max].map((one) =>
        formatLatency(count === 0 ? Number.NaN : one),
      ),
    ]),
  );
}

function errors({ workflows, errors: rows }: Report): string {
  const own = workflows.flatMap(({ name, error }) =>
    error === undefined ? [] : [[name, `${error.code}: ${error.message}`, '', '']],
  );
  const counted = rows.map(({ workflow, step, message, place, count }) => [
    ...[`${workflow} / ${step}`, message, place, formatCount(count)],
  ]);
  return grid(['Where', 'Error', 'Line', 'Times'], [...own, ...counted], 'text');
}

/** Failed items by message, then the listed ones. */
function failedItems({ count, messages, other, items }: WorkflowFailures): string {
  const byMessage = messages.map(({ message, at, count: times }) => [message, at, formatCount(times)]);
  const rest = other === 0 ? [] : [['other messages', '', formatCount(other)]];
  const rows = items.map(({ index, error }) => [String(index), itemErrorText(error), error.at ?? '']);
  const listed = items.length < count ? `; ${formatCount(items.length)} of ${formatCount(count)} are listed` : '';
  const head = `<p>${safe(`${formatAmount(count, 'failed item')}${listed}`)}.</p>`;
  const counts = grid(['Message', 'Line', 'Items'], [...byMessage, ...rest], 'text');
  return `${head}${counts}${grid(['Item', 'Error', 'Line'], rows, 'text')}`;
}

function metrics({ metrics: rows }: Report): string {
  return grid(
    ['Metric', 'Kind', 'Value'],
    rows.map((metric) => [`${metric.workflow} / ${metric.name}`, metric.kind, formatMetric(metric)]),
  );
}

function checks({ checks: rows }: Report): string {
  return grid(
    ['Check', 'Passed', 'Failed'],
    rows.map(({ name, passed, failed }) => [name, formatCount(passed), formatCount(failed)]),
  );
}

function thresholds({ thresholds: rows }: Report): string {
  return grid(
    ['Threshold', 'Result', 'Value'],
    rows.map(({ expr, ok, value }) => [expr, ok ? 'ok' : 'FAILED', value === null ? '' : String(value)]),
  );
}

function incidents({ incidents: rows }: Report): string {
  return grid(
    ['Time', 'Type', 'Node', 'Effect'],
    rows.map(({ time, type, node, effect }) => [time, type, node, effect]),
    'text',
  );
}
