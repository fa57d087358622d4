/** `remuster job result` and `job failures`: what the items of a job gave, and which of them failed. */
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RemusterError } from '../../base/errors.ts';
import { type ItemFailure, itemErrorText } from '../../jobs/report/item-failures.ts';
import type { Report } from '../../jobs/report/report.ts';
import type { WorkflowFailures } from '../../jobs/report/report-failures.ts';
import { exitOk } from '../command/exit.ts';
import type { TargetFlags } from '../command/target.ts';
import { formatAmount, formatCount } from '../output/amounts.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { printData, printNotice, stripControls } from '../output/terminal.ts';
import { type JobHttpClient, openJobHttpClient } from './job-client.ts';
import { exitCodeOfJob, fetchFailures, fetchReport, fetchResults, streamResults } from './job-outcome.ts';

type Flags = TargetFlags & { readonly output: OutputFormat; readonly workflow?: string };
type FailureRow = ItemFailure & { readonly workflow: string };

/** On a terminal; what is longer belongs in a file. */
const linesOnTerminal = 50;
const messagesMax = 10;

const failureColumns: readonly Column<FailureRow>[] = [
  { title: 'WORKFLOW', cell: (row) => row.workflow },
  { title: 'INDEX', cell: (row) => String(row.index) },
  { title: 'ERROR', cell: ({ error }) => itemErrorText(error) },
  { title: 'AT', cell: ({ error }) => error.at ?? '' },
];

/** Exits as `run` does, so that a script cannot take a part for the whole. */
export async function jobResultCommand(jobId: string, flags: Flags & { readonly out?: string }): Promise<number> {
  const site = await openJobHttpClient(flags);
  const { out, output, workflow } = flags;
  const report = await fetchReport(site, jobId);
  if (out !== undefined) await writeResults(out, streamResults(site, jobId, workflow));
  else if (output === 'table' || output === 'wide')
    await printResults(site, jobId, { workflow, linesMax: process.stdout.isTTY ? linesOnTerminal : Infinity });
  else {
    for await (const text of streamResults(site, jobId, workflow)) process.stdout.write(text);
    printData('');
  }
  const exitCode = exitCodeOfJob(report);
  if (exitCode !== exitOk) printNotice(endText(report));
  return exitCode;
}

/** Also at the end of `run`: so many lines at most, and how many are left. */
export async function printResults(
  site: JobHttpClient,
  jobId: string,
  { workflow, linesMax = linesOnTerminal }: { readonly workflow?: string | undefined; readonly linesMax?: number } = {},
): Promise<void> {
  const lines = JSON.stringify(await fetchResults(site, jobId, workflow), undefined, 2).split('\n');
  printData(lines.slice(0, linesMax).map(stripControls).join('\n'));
  const left = Math.max(0, lines.length - linesMax);
  if (left === 0) return;
  printNotice(`${formatAmount(left, 'more line')}: remuster job result ${stripControls(jobId)} --out FILE`);
}

export async function jobFailuresCommand(jobId: string, flags: Flags): Promise<number> {
  const site = await openJobHttpClient(flags);
  const lists = await fetchFailures(site, jobId, flags.workflow);
  const rows = lists.flatMap(({ workflow, items }) => items.map((item): FailureRow => ({ workflow, ...item })));
  const text = await renderList(flags.output, rows, failureColumns, ({ workflow, index }) => `${workflow}/${index}`);
  if (text !== '') printData(text);
  const all = lists.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) printNotice('no item failed');
  if (all > rows.length) printNotice(`${formatCount(rows.length)} of ${formatAmount(all, 'failed item')} are listed`);
  return exitOk;
}

async function writeResults(file: string, texts: AsyncIterable<string>): Promise<void> {
  try {
    await pipeline(Readable.from(withNewline(texts)), createWriteStream(file));
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new RemusterError('BAD_ARGUMENT', `cannot write ${file}: ${error.message}`);
    throw error;
  }
  printNotice(`wrote ${file}`);
}

async function* withNewline(texts: AsyncIterable<string>): AsyncGenerator<string> {
  yield* texts;
  yield '\n';
}

/** Why the exit code is not 0. */
function endText({ jobId, status, failures, thresholds }: Report): string {
  const broken = thresholds.filter(({ ok }) => !ok);
  const isJudged = status === 'COMPLETED';
  const lines = broken.map(
    ({ expr, value }) => `  ${stripControls(expr)}  (${value === null ? 'nothing was measured' : String(value)})`,
  );
  return [
    isJudged ? `the job is COMPLETED, but ${formatAmount(broken.length, 'threshold')} failed:` : `the job is ${status}`,
    ...(isJudged ? lines : []),
    ...failureLines(failures),
    ...(failures.length === 0 ? [] : [listHint(jobId)]),
  ].join('\n');
}

/** How many items failed, and with which messages. */
function failureLines(failures: readonly WorkflowFailures[]): readonly string[] {
  return failures.flatMap(({ workflow, count, messages, other }) => {
    const shown = messages.slice(0, messagesMax).map(({ message, at, count: times }) => {
      const where = at === '' ? '' : ` (${stripControls(at)})`;
      return `  ${formatCount(times)} x  ${stripControls(message)}${where}`;
    });
    const rest = messages.slice(messagesMax).reduce((sum, one) => sum + one.count, other);
    const more = rest === 0 ? [] : [`  ${formatCount(rest)} x  other messages`];
    return [`${stripControls(workflow)}: ${formatAmount(count, 'failed item')}`, ...shown, ...more];
  });
}

export function listHint(jobId: string): string {
  return `which items: remuster job failures ${stripControls(jobId)}`;
}
