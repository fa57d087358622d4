/** `remuster run FILE`: bundles, submits, follows and reports a job. Ctrl-C cancels the job; a second Ctrl-C exits. */
import { isRemusterError } from '../../base/errors.ts';
import type { SubmitReply } from '../../jobs/job-types.ts';
import type { Report } from '../../jobs/report/report.ts';
import { exitInterrupted, exitOk } from '../command/exit.ts';
import { exitCodeOfJob, fetchReport, fetchResults, hasResults } from './job-outcome.ts';
import { listHint, printResults } from './job-results.ts';
import { type JobHttpClient, jobPath, openJobHttpClient } from './job-client.ts';
import {
  type PreparedSubmission,
  type SubmissionFlags,
  checkDatacenter,
  prepareSubmission,
  submitPrepared,
} from './job-submission.ts';
import { openLiveScreen } from './live-screen.ts';
import { LiveView } from './live-view.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { checkReportFiles, writeReportFiles } from './report-files.ts';
import { formatReport } from './report-text.ts';
import { onStopSignals } from '../command/signals.ts';
import type { TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

export type RunFlags = TargetFlags &
  SubmissionFlags & { readonly output: OutputFormat; readonly out?: readonly string[]; readonly detach?: true };

export async function runCommand(file: string, flags: RunFlags): Promise<number> {
  checkReportFiles(flags.out ?? []);
  const client = await openJobHttpClient(flags);
  const interrupt = new CancelOnInterrupt(client);
  const submission = await prepareSubmission(file, flags);
  await checkDatacenter(client, flags);
  if (interrupt.isRequested) return exitInterrupted;
  const submitted = await submitPrepared(client, submission);
  if (flags.detach === true) return await printDetached(submitted, flags.output);
  interrupt.submitted(submitted.jobId);
  const exitCode = await followToEnd(client, submitted.jobId, submission, flags);
  return interrupt.isRequested ? exitInterrupted : exitCode;
}

/** The first Ctrl-C cancels the job, as soon as it is submitted. */
class CancelOnInterrupt {
  isRequested = false;
  readonly #client: JobHttpClient;
  #jobId: string | undefined;

  constructor(client: JobHttpClient) {
    this.#client = client;
    onStopSignals(
      () => this.#onFirst(),
      () => this.#onSecond(),
    );
  }

  submitted(jobId: string): void {
    this.#jobId = jobId;
    if (this.isRequested) void this.#cancel(jobId);
  }

  #onFirst(): void {
    this.isRequested = true;
    printNotice('cancelling the job; press Ctrl-C again to exit at once');
    if (this.#jobId !== undefined) void this.#cancel(this.#jobId);
  }

  async #cancel(jobId: string): Promise<void> {
    try {
      await this.#client.change('DELETE', jobPath(jobId));
    } catch (error) {
      printNotice(`the job could not be cancelled: ${isRemusterError(error) ? error.message : String(error)}`);
    }
  }

  #onSecond(): void {
    const id = stripControls(this.#jobId ?? '');
    if (id !== '') printNotice(`job ${id} may still run: remuster job show ${id}`);
  }
}

/** Follows a job, prints and writes its report, and returns the exit code. Also used by `npm start`. */
export async function followToEnd(
  client: JobHttpClient,
  jobId: string,
  { request }: Pick<PreparedSubmission, 'request'>,
  flags: Pick<RunFlags, 'output' | 'out'>,
): Promise<number> {
  const view = new LiveView(request.workflows);
  const screen = openLiveScreen(view);
  try {
    for await (const progress of client.progress(jobId)) screen.update(progress);
  } finally {
    screen.end();
  }
  const report = await fetchReport(client, jobId);
  const isTable = flags.output === 'table' || flags.output === 'wide';
  const text = isTable
    ? `\n${formatReport(report)}`
    : await renderObject(flags.output, report, { name: jobId, lines: [] });
  printData(text);
  if (isTable) await showResults(client, report);
  const results = async (): Promise<unknown> => (hasResults(report) ? await fetchResults(client, jobId) : undefined);
  await writeReportFiles(flags.out ?? [], report, view.samples, results);
  return exitCodeOfJob(report);
}

/** Prints the results of a batch, and how to list its failed items. */
async function showResults(client: JobHttpClient, report: Report): Promise<void> {
  if (report.failures.length > 0) printNotice(listHint(report.jobId));
  if (!hasResults(report) || !report.workflows.some(({ style }) => style === 'batch')) return;
  printData('');
  await printResults(client, report.jobId);
}

async function printDetached(submitted: SubmitReply, output: OutputFormat): Promise<number> {
  const { jobId, status, isNew } = submitted;
  // By default the id alone, for scripts.
  const format = output === 'table' ? 'name' : output;
  printData(
    await renderObject(
      format,
      { jobId, status, isNew },
      {
        name: jobId,
        lines: [
          ['JOB', jobId],
          ['STATUS', status],
        ],
      },
    ),
  );
  return exitOk;
}
