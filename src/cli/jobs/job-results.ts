/** `remuster job result` and `job failures`: the results of a job, and its failed items. */
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

/** Longer results belong in a file. */
const linesOnTerminal = 50;
const messagesMax = 10;

const failureColumns: readonly Column<FailureRow>[] = [
  { title: 'WORKFLOW', cell: (row) => row.workflow },
  { title: 'INDEX', cell: (row) => String(row.index) },
  { title: 'ERROR', cell: ({ error }) => itemErrorText(error) },
  { title: 'AT', cell: ({ error }) => error.at ?? '' },
];

/** Exits with the code of the job, as `run` does: a script cannot mistake partial results for complete ones. */
export async function jobResultCommand(jobId: string, flags: Flags & { readonly out?: string }): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { out, output, workflow } = flags;
  const report = await fetchReport(client, jobId);
  if (out !== undefined) await writeResults(out, streamResults(client, jobId, workflow));
  else if (output === 'table' || output === 'wide')
    await printResults(client, jobId, { workflow, linesMax: process.stdout.isTTY ? linesOnTerminal : Infinity });
  else {
    for await (const text of streamResults(client, jobId, workflow)) process.stdout.write(text);
    printData('');
  }
  const exitCode = exitCodeOfJob(report);
  if (exitCode !== exitOk) printNotice(outcomeText(report));
  return exitCode;
}

/** Prints at most `linesMax` lines, and how many remain. Also used by `run`. */
export async function printResults(
  client: JobHttpClient,
  jobId: string,
  { workflow, linesMax = linesOnTerminal }: { readonly workflow?: string | undefined; readonly linesMax?: number } = {},
): Promise<void> {
  const lines = JSON.stringify(await fetchResults(client, jobId, workflow), undefined, 2).split('\n');
  printData(lines.slice(0, linesMax).map(stripControls).join('\n'));
  const remaining = Math.max(0, lines.length - linesMax);
  if (remaining === 0) return;
  printNotice(`${formatAmount(remaining, 'more line')}: remuster job result ${stripControls(jobId)} --out FILE`);
}

export async function jobFailuresCommand(jobId: string, flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  const lists = await fetchFailures(client, jobId, flags.workflow);
  const rows = lists.flatMap(({ workflow, items }) => items.map((item): FailureRow => ({ workflow, ...item })));
  const text = await renderList(flags.output, rows, failureColumns, ({ workflow, index }) => `${workflow}/${index}`);
  if (text !== '') printData(text);
  const all = lists.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) printNotice('no item failed');
  if (all > rows.length) printNotice(`${formatCount(rows.length)} of ${formatAmount(all, 'failed item')} are listed`);
  return exitOk;
}

async function writeResults(file: string, parts: AsyncIterable<string>): Promise<void> {
  try {
    await pipeline(Readable.from(withNewline(parts)), createWriteStream(file));
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new RemusterError('BAD_ARGUMENT', `cannot write ${file}: ${error.message}`);
    throw error;
  }
  printNotice(`wrote ${file}`);
}

async function* withNewline(parts: AsyncIterable<string>): AsyncGenerator<string> {
  yield* parts;
  yield '\n';
}

/** Explains an exit code that is not 0. */
function outcomeText({ jobId, status, failures, thresholds }: Report): string {
  const failed = thresholds.filter(({ ok }) => !ok);
  const isCompleted = status === 'COMPLETED';
  const lines = failed.map(
    ({ expr, value }) => `  ${stripControls(expr)}  (${value === null ? 'no measurements' : String(value)})`,
  );
  return [
    isCompleted
      ? `the job is COMPLETED, but ${formatAmount(failed.length, 'threshold')} failed:`
      : `the job is ${status}`,
    ...(isCompleted ? lines : []),
    ...failureLines(failures),
    ...(failures.length === 0 ? [] : [listHint(jobId)]),
  ].join('\n');
}

/** The number of failed items, and how often each message occurred. */
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
  return `list the failed items: remuster job failures ${stripControls(jobId)}`;
}
