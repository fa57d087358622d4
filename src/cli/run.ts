/**
 * `remuster run FILE`: bundles, submits, follows with a live view, prints the report. Ctrl-C cancels the job and waits
 * for its end; once more leaves at once. The exit code says how it ended.
 */
import { isRemusterError } from '../base/errors.ts';
import type { SubmitReply } from '../jobs/job-types.ts';
import { exitInterrupted, exitOk } from './failure.ts';
import { exitCodeOf, reportOf, resultTexts, resultsOf } from './job-end.ts';
import { type JobSite, jobPath, jobSite } from './job-site.ts';
import { type Submission, type SubmissionFlags, checkDatacenter, submissionOf, submit } from './job-submission.ts';
import { openScreen } from './live-screen.ts';
import { LiveView } from './live-view.ts';
import { type Format, renderThing } from './output.ts';
import { checkOuts, writeOuts } from './report-files.ts';
import { reportText } from './report-text.ts';
import { onStopSignals } from './signals.ts';
import type { TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';

export type RunFlags = TargetFlags &
  SubmissionFlags & { readonly output: Format; readonly out?: readonly string[]; readonly detach?: true };

const resultCharactersMax = 1_000;

export async function run(file: string, flags: RunFlags): Promise<number> {
  checkOuts(flags.out ?? []);
  const site = await jobSite(flags);
  const interrupt = new Interrupt(site);
  const submission = await submissionOf(file, flags);
  await checkDatacenter(site, flags);
  if (interrupt.isAsked) return exitInterrupted;
  const submitted = await submit(site, submission);
  if (flags.detach === true) return await sayDetached(submitted, flags.output);
  interrupt.submitted(submitted.jobId);
  const exitCode = await followed(site, submitted.jobId, submission, flags);
  return interrupt.isAsked ? exitInterrupted : exitCode;
}

/** The first Ctrl-C cancels the job, as soon as there is one. */
class Interrupt {
  isAsked = false;
  readonly #site: JobSite;
  #jobId: string | undefined;

  constructor(site: JobSite) {
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
    say('cancelling the job; once more to leave at once');
    if (this.#jobId !== undefined) void this.#cancel(this.#jobId);
  }

  async #cancel(jobId: string): Promise<void> {
    try {
      await this.#site.change('DELETE', jobPath(jobId));
    } catch (error) {
      say(`it could not be cancelled: ${isRemusterError(error) ? error.message : String(error)}`);
    }
  }

  #lastWords(): void {
    const id = plain(this.#jobId ?? '');
    if (id !== '') say(`the job ${id} may still run: remuster job show ${id}`);
  }
}

/** Also for `npm start`. */
export async function followed(
  site: JobSite,
  jobId: string,
  { request }: Pick<Submission, 'request'>,
  flags: Pick<RunFlags, 'output' | 'out'>,
): Promise<number> {
  const view = new LiveView(request.workflows);
  const screen = openScreen(view);
  try {
    for await (const progress of site.progress(jobId)) screen.told(progress);
  } finally {
    screen.end();
  }
  const report = await reportOf(site, jobId);
  const isForPeople = flags.output === 'table' || flags.output === 'wide';
  const text = isForPeople
    ? `\n${reportText(report)}`
    : await renderThing(flags.output, report, { name: jobId, lines: [] });
  print(text);
  if (isForPeople && report.status === 'COMPLETED' && report.workflows.some(({ style }) => style === 'batch'))
    await showResults(site, jobId);
  const results = async (): Promise<unknown> =>
    report.status === 'COMPLETED' ? await resultsOf(site, jobId) : undefined;
  await writeOuts(flags.out ?? [], report, view.samples, results);
  return exitCodeOf(report);
}

/** What is short enough to be looked at. */
async function showResults(site: JobSite, jobId: string): Promise<void> {
  for await (const text of resultTexts(site, jobId)) {
    if (text.length <= resultCharactersMax) print(`\n${plain(text)}`);
    else say(`what it gave: remuster job result ${plain(jobId)}`);
    return;
  }
}

async function sayDetached(submitted: SubmitReply, output: Format): Promise<number> {
  const { jobId, status, isNew } = submitted;
  // For scripts: the id alone, unless another form was asked for.
  const format = output === 'table' ? 'name' : output;
  print(
    await renderThing(
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
