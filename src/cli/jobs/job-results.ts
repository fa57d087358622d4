/** `remuster job result` and `job failures`: what the items of a job gave, and which of them failed. */
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RemusterError } from '../../base/errors.ts';
import type { ItemFailure } from '../../jobs/report/item-failures.ts';
import type { WorkflowFailures } from '../../jobs/report/report-failures.ts';
import { exitOk } from '../command/exit.ts';
import type { TargetFlags } from '../command/target.ts';
import { formatCount } from '../output/amounts.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { printData, printNotice, stripControls } from '../output/terminal.ts';
import { type JobHttpClient, openJobHttpClient } from './job-client.ts';
import { exitCodeOfJob, fetchFailures, fetchReport, fetchResults, streamResults } from './job-outcome.ts';

type Flags = TargetFlags & { readonly output: OutputFormat; readonly workflow?: string };
type FailureRow = ItemFailure & { readonly workflow: string };

/** For people; what is longer belongs in a file. */
const linesMax = 50;
const messagesMax = 10;

const failureColumns: readonly Column<FailureRow>[] = [
  { title: 'WORKFLOW', cell: (row) => row.workflow },
  { title: 'INDEX', cell: (row) => String(row.index) },
  { title: 'ERROR', cell: ({ error: { name, message } }) => `${name}: ${message}` },
  { title: 'AT', cell: ({ error }) => error.at ?? '' },
];

/** Exits as `run` does, so that a script cannot take a part for the whole. */
export async function jobResultCommand(jobId: string, flags: Flags & { readonly out?: string }): Promise<number> {
  const site = await openJobHttpClient(flags);
  const { out, output, workflow } = flags;
  const report = await fetchReport(site, jobId);
  if (out !== undefined) await writeResults(out, streamResults(site, jobId, workflow));
  else if (output === 'table' || output === 'wide') await printResults(site, jobId, workflow);
  else {
    for await (const text of streamResults(site, jobId, workflow)) process.stdout.write(text);
    printData('');
  }
  if (report.status !== 'COMPLETED') printNotice(endText(jobId, report.status, report.failures));
  return exitCodeOfJob(report);
}

/** Also at the end of `run`: up to 50 lines, and how many are left. */
export async function printResults(site: JobHttpClient, jobId: string, workflow?: string): Promise<void> {
  const { shown, left } = prettyLines(await fetchResults(site, jobId, workflow));
  printData(shown.map(stripControls).join('\n'));
  const id = stripControls(jobId);
  if (left > 0) printNotice(`${formatCount(left)} more lines: remuster job result ${id} --out FILE`);
}

function prettyLines(results: unknown): { readonly shown: readonly string[]; readonly left: number } {
  const lines = JSON.stringify(results, undefined, 2).split('\n');
  return { shown: lines.slice(0, linesMax), left: Math.max(0, lines.length - linesMax) };
}

export async function jobFailuresCommand(jobId: string, flags: Flags): Promise<number> {
  const site = await openJobHttpClient(flags);
  const lists = await fetchFailures(site, jobId, flags.workflow);
  const rows = lists.flatMap(({ workflow, items }) => items.map((item): FailureRow => ({ workflow, ...item })));
  const text = await renderList(flags.output, rows, failureColumns, ({ workflow, index }) => `${workflow}/${index}`);
  if (text !== '') printData(text);
  const all = lists.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) printNotice('no item failed');
  if (all > rows.length)
    printNotice(`${formatCount(all)} items failed; the first ${formatCount(rows.length)} are listed`);
  return exitOk;
}

async function writeResults(file: string, texts: AsyncIterable<string>): Promise<void> {
  try {
    await pipeline(Readable.from(texts), createWriteStream(file));
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new RemusterError('BAD_ARGUMENT', `cannot write ${file}: ${error.message}`);
    throw error;
  }
  printNotice(`wrote ${file}`);
}

function endText(jobId: string, status: string, failures: readonly WorkflowFailures[]): string {
  const id = stripControls(jobId);
  return [`the job is ${status}`, ...failureLines(failures), ...(failures.length === 0 ? [] : [listHint(id)])].join(
    '\n',
  );
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
    return [`${stripControls(workflow)}: ${formatCount(count)} failed items`, ...shown, ...more];
  });
}

export function listHint(jobId: string): string {
  return `which items: remuster job failures ${stripControls(jobId)}`;
}
