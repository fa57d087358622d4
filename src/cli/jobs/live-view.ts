/**
 * A running job as terminal lines: progress, rate, latency, incidents. It is fed times and progress, and returns text;
 * it prints nothing. Text from the job has no control characters.
 */
import { type Incident, type JobProgress, isSuccess, isTerminalStatus } from '../../jobs/job-types.ts';
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import { formatCount, formatElapsed, formatLatency, formatRate } from '../output/amounts.ts';
import { stripControls } from '../output/terminal.ts';

/** One point of a plot. */
export type ProgressSample = {
  readonly elapsedMs: number;
  readonly ratePerSecond: number;
  /** Undefined until something was measured. */
  readonly p50: number | undefined;
  readonly p99: number | undefined;
  readonly failed: number;
};

export type ViewStyle = {
  readonly columns: number;
  /** True if the terminal can show block characters. */
  readonly blocks: boolean;
  readonly paint: (style: 'red' | 'yellow' | 'green' | 'cyan' | 'dim' | 'bold', text: string) => string;
};

const samplesMax = 600;
const incidentsShown = 5;
const workflowsShown = 8;
/** From low to high. */
const blockLevels = '\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588';
const asciiLevels = '_.-=+*%#';

export class LiveView {
  readonly samples: ProgressSample[] = [];
  readonly #facts: ReadonlyMap<string, WorkflowFacts>;
  /** When each workflow was first seen running. */
  readonly #startedMs = new Map<string, number>();
  #updatedMs = 0;
  #count = 0;
  /** One sample of this many updates is kept. */
  #stride = 1;
  #latest: JobProgress | undefined;

  /** `facts` are known to the submitter only; without them a load test has no expected duration. */
  constructor(facts: readonly WorkflowFacts[]) {
    this.#facts = new Map(facts.map((one) => [one.name, one]));
  }

  update(nowMs: number, progress: JobProgress): void {
    this.#latest = progress;
    this.#updatedMs = nowMs;
    for (const { name, status } of progress.workflows)
      if (status === 'RUNNING' && !this.#startedMs.has(name)) this.#startedMs.set(name, nowMs);
    const { elapsedMs, ratePerSecond, latencyMs, failed } = progress;
    this.#count += 1;
    if (this.#count % this.#stride !== 0 && !isTerminalStatus(progress.status)) return;
    this.samples.push({ elapsedMs, ratePerSecond, p50: latencyMs?.p50, p99: latencyMs?.p99, failed });
    if (this.samples.length < samplesMax) return;
    // The samples are thinned out, so that they still cover the whole run.
    this.samples.splice(0, samplesMax, ...this.samples.filter((_, i) => i % 2 === 0));
    this.#stride *= 2;
  }

  /** From 0 to 1; undefined if it cannot be known. */
  fraction(nowMs: number): number | undefined {
    const workflows = this.#latest?.workflows ?? [];
    if (workflows.length === 0) return undefined;
    const parts = workflows.map((one) => this.#fractionOf(one, nowMs));
    return parts.some((part) => part === undefined)
      ? undefined
      : parts.reduce<number>((sum, part) => sum + (part ?? 0), 0) / parts.length;
  }

  lines(nowMs: number, style: ViewStyle): readonly string[] {
    const progress = this.#latest;
    if (progress === undefined) return ['waiting for the first progress'];
    const { columns, paint } = style;
    const elapsedMs = progress.elapsedMs + (nowMs - this.#updatedMs);
    const name = paint('bold', stripControls(progress.workflows[0]?.name ?? progress.jobId));
    const title = `${name}  ${progress.status}  ${formatElapsed(elapsedMs)}`;
    const workers = progress.workers.length === 0 ? '' : `  on ${stripControls(progress.workers.join(' '))}`;
    const plot = paint('cyan', this.#plot(Math.max(10, columns - 24), style));
    const lines = [
      `${title}${workers}`,
      this.#bar(nowMs, style),
      `done     ${formatCount(progress.completed)}${failedText(progress.failed, paint)}`,
      `rate     ${formatRate(progress.ratePerSecond).padEnd(10)} ${plot}`,
      `latency  ${percentilesText(progress, '   ')}`,
    ];
    if (progress.queue !== null)
      lines.push(`queued   position ${progress.queue.position}: ${stripControls(progress.queue.reason)}`);
    if (progress.workflows.length > 1) lines.push(...workflowLines(progress, paint));
    const incidents = progress.incidents.slice(-incidentsShown);
    lines.push(...incidents.map((one) => paint('yellow', incidentText(one))));
    return lines;
  }

  #bar(nowMs: number, { columns, paint }: ViewStyle): string {
    const width = Math.max(10, Math.min(60, columns - 12));
    const fraction = this.fraction(nowMs);
    if (fraction === undefined) return `[${paint('dim', '.'.repeat(width))}]`;
    const filled = Math.round(fraction * width);
    const percent = `${Math.floor(fraction * 100)}%`.padStart(4);
    return `[${paint('green', '#'.repeat(filled))}${paint('dim', '.'.repeat(width - filled))}] ${percent}`;
  }

  #plot(width: number, { blocks }: ViewStyle): string {
    const rates = this.samples.slice(-width).map(({ ratePerSecond }) => ratePerSecond);
    return sparkline(rates, blocks ? blockLevels : asciiLevels);
  }

  #fractionOf(
    { name, status, completed, failed, units }: JobProgress['workflows'][number],
    nowMs: number,
  ): number | undefined {
    if (isSuccess(status) || status === 'FAILED' || status === 'CANCELLED') return 1;
    if (status === 'PENDING') return 0;
    const facts = this.#facts.get(name);
    const startedMs = this.#startedMs.get(name);
    const byUnits = units.total > 1 ? units.done / units.total : undefined;
    const items = facts?.batch?.items ?? facts?.load?.iterations;
    const byItems = items === undefined || items === 0 ? undefined : (completed + failed) / items;
    const durationMs = facts?.load?.durationMs;
    const byTime = durationMs === undefined || startedMs === undefined ? undefined : (nowMs - startedMs) / durationMs;
    const known = [byItems, byTime].filter((one) => one !== undefined);
    const fraction = known.length === 0 ? byUnits : Math.max(...known);
    return fraction === undefined ? undefined : Math.min(0.99, fraction);
  }
}

/** Dashes until something was measured. */
function percentilesText({ latencyMs }: JobProgress, gap: string): string {
  const text = (name: 'p50' | 'p95' | 'p99') => `${name} ${formatLatency(latencyMs?.[name] ?? Number.NaN)}`;
  return [text('p50'), text('p95'), text('p99')].join(gap);
}

/** The view as one line for a log, without its plot. */
export function progressLine(progress: JobProgress): string {
  const queue = progress.queue === null ? '' : `  position ${progress.queue.position}: ${progress.queue.reason}`;
  const workers = progress.workers.length === 0 ? '' : `  on ${progress.workers.join(' ')}`;
  const counts = `${formatCount(progress.completed)} done  ${formatCount(progress.failed)} failed`;
  const speed = `${formatRate(progress.ratePerSecond)}  ${percentilesText(progress, '  ')}`;
  return stripControls(
    `${progress.status}  ${formatElapsed(progress.elapsedMs)}  ${counts}  ${speed}${workers}${queue}`,
  );
}

export function incidentText({ time, type, node, effect }: Incident): string {
  return stripControls(`${time.slice(11, 19)}  ${type}  ${node}  ${effect}`);
}

function sparkline(values: readonly number[], levels: string): string {
  const most = Math.max(...values, 0);
  const top = levels.length - 1;
  return values.map((value) => levels[most === 0 ? 0 : Math.round((value / most) * top)] ?? '').join('');
}

function failedText(failed: number, paint: ViewStyle['paint']): string {
  return failed === 0 ? '' : `  ${paint('red', `${formatCount(failed)} failed`)}`;
}

function workflowLines({ workflows }: JobProgress, paint: ViewStyle['paint']): string[] {
  const shown = workflows.slice(0, workflowsShown);
  const width = Math.max(...shown.map(({ name }) => name.length));
  const lines = shown.map(({ name, status, completed, failed, units }) => {
    const head = `         ${stripControls(name).padEnd(width)}  ${status.padEnd(9)}`;
    const done = `${formatCount(completed)} done${failedText(failed, paint)}`;
    return `${head}  ${units.done} of ${units.total} units  ${done}`;
  });
  const more = workflows.length - shown.length;
  return more > 0 ? [...lines, `         and ${more} more`] : lines;
}
