/** `remuster run FILE`: bundle, submit, live view, report. Ctrl-C cancels the job; a second one exits. */
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
  const site = await openJobHttpClient(flags);
  const interrupt = new CancelOnInterrupt(site);
  const submission = await prepareSubmission(file, flags);
  await checkDatacenter(site, flags);
  if (interrupt.isAsked) return exitInterrupted;
  const submitted = await submitPrepared(site, submission);
  if (flags.detach === true) return await sayDetached(submitted, flags.output);
  interrupt.submitted(submitted.jobId);
  const exitCode = await followToEnd(site, submitted.jobId, submission, flags);
  return interrupt.isAsked ? exitInterrupted : exitCode;
}

/** The first Ctrl-C cancels the job, as soon as there is one. */
class CancelOnInterrupt {
  isAsked = false;
  readonly #site: JobHttpClient;
  #jobId: string | undefined;

  constructor(site: JobHttpClient) {
    this.#site = site;
    onStopSignals(
      () => this.#asked(),
      () => this.#lastWords(),
    );
  }

  submitted(jobId: string): void {
    this.#jobId = jobId;
    if (this.isAsked) void this.#cancel(jobId);
  }

  #asked(): void {
    this.isAsked = true;
    printNotice('cancelling the job; once more to leave at once');
    if (this.#jobId !== undefined) void this.#cancel(this.#jobId);
  }

  async #cancel(jobId: string): Promise<void> {
    try {
      await this.#site.change('DELETE', jobPath(jobId));
    } catch (error) {
      printNotice(`it could not be cancelled: ${isRemusterError(error) ? error.message : String(error)}`);
    }
  }

  #lastWords(): void {
    const id = stripControls(this.#jobId ?? '');
    if (id !== '') printNotice(`the job ${id} may still run: remuster job show ${id}`);
  }
}

/** Also for `npm start`. */
export async function followToEnd(
  site: JobHttpClient,
  jobId: string,
  { request }: Pick<PreparedSubmission, 'request'>,
  flags: Pick<RunFlags, 'output' | 'out'>,
): Promise<number> {
  const view = new LiveView(request.workflows);
  const screen = openLiveScreen(view);
  try {
    for await (const progress of site.progress(jobId)) screen.told(progress);
  } finally {
    screen.end();
  }
  const report = await fetchReport(site, jobId);
  const isForPeople = flags.output === 'table' || flags.output === 'wide';
  const text = isForPeople
    ? `\n${formatReport(report)}`
    : await renderObject(flags.output, report, { name: jobId, lines: [] });
  printData(text);
  if (isForPeople) await showResults(site, report);
  const results = async (): Promise<unknown> => (hasResults(report) ? await fetchResults(site, jobId) : undefined);
  await writeReportFiles(flags.out ?? [], report, view.samples, results);
  return exitCodeOfJob(report);
}

/** Of batches: what the items gave, and where the failed ones are listed. */
async function showResults(site: JobHttpClient, report: Report): Promise<void> {
  if (report.failures.length > 0) printNotice(listHint(report.jobId));
  if (!hasResults(report) || !report.workflows.some(({ style }) => style === 'batch')) return;
  printData('');
  await printResults(site, report.jobId);
}

async function sayDetached(submitted: SubmitReply, output: OutputFormat): Promise<number> {
  const { jobId, status, isNew } = submitted;
  // For scripts: the id alone, unless another form was asked for.
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
