/** `remuster job submit|list|show|watch|cancel|report|result|explain` and `schedule list|delete`. */
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { RemusterError } from '../base/errors.ts';
import type { JobRow, JobView, JobStatus, WorkflowView } from '../jobs/job-types.ts';
import { finishUnitNumber, planUnitNumber } from '../jobs/unit-spec.ts';
import { countText, elapsedText, rateText } from './amounts.ts';
import { exitOk } from './failure.ts';
import { withQuery } from './http-client.ts';
import { exitCodeOf, reportOf, resultTexts, resultsOf } from './job-end.ts';
import { jobPath, jobSite, thing } from './job-site.ts';
import { type StartFlags, type SubmissionFlags, checkDatacenter, submissionOf, submit } from './job-submission.ts';
import { openScreen } from './live-screen.ts';
import { LiveView } from './live-view.ts';
import { type Column, type Format, renderList, renderThing, table } from './output.ts';
import { checkOuts, writeOuts } from './report-files.ts';
import { reportText } from './report-text.ts';
import { onInterruptSay } from './signals.ts';
import type { TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';
import { printLook } from './watching.ts';

type Flags = TargetFlags & { readonly output: Format };

const jobColumns: readonly Column<JobRow>[] = [
  { title: 'JOB', cell: (row) => row.jobId },
  { title: 'NAME', cell: (row) => row.name },
  { title: 'STATUS', cell: (row) => row.status },
  { title: 'SUBMITTED', cell: (row) => momentText(row.submittedAtMs) },
  { title: 'ENDED', wide: true, cell: (row) => momentText(row.endedAtMs) },
  { title: 'BY', wide: true, cell: (row) => row.submitter },
  { title: 'COMPLETED', cell: (row) => countText(row.completed) },
  { title: 'FAILED', cell: (row) => countText(row.failed) },
];

export async function listJobs(
  flags: Flags & { readonly limit?: number; readonly status?: string; readonly watch?: true },
): Promise<number> {
  const site = await jobSite(flags);
  const { limit, status } = flags;
  const query = {
    ...(limit === undefined ? {} : { limit: String(limit) }),
    ...(status === undefined ? {} : { status: status.toUpperCase() }),
  };
  return await printLook(flags.output, flags.watch === true, async () => {
    const { items } = (await site.get(withQuery('/v1/jobs', query))) as { items: JobRow[] };
    return { text: await renderList(flags.output, items, jobColumns, (row) => row.jobId) };
  });
}

export async function submitJob(file: string, flags: Flags & SubmissionFlags & StartFlags): Promise<number> {
  const site = await jobSite(flags);
  const submission = await submissionOf(file, flags);
  await checkDatacenter(site, flags);
  const { jobId, status, isNew } = await submit(site, submission);
  const lines: [string, string][] =
    flags.cron === undefined
      ? [
          ['JOB', jobId],
          ['STATUS', status],
          ['NEW', isNew ? 'yes' : 'no, this key was submitted before'],
        ]
      : [['SCHEDULE', flags.key ?? jobId]];
  print(await renderThing(flags.output, { jobId, status, isNew }, { name: jobId, lines }));
  return exitOk;
}

export async function showJob(jobId: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const site = await jobSite(flags);
  const { output } = flags;
  return await printLook(output, flags.watch === true, async () => {
    const job = thing(await site.get(jobPath(jobId))) as JobView;
    if (output === 'table' || output === 'wide') return { text: await shownText(job, output) };
    return { text: await renderThing(output, job, { name: job.jobId, lines: [] }) };
  });
}

/** Ctrl-C only stops the watching. */
export async function watchJob(jobId: string, flags: Flags): Promise<number> {
  const site = await jobSite(flags);
  onInterruptSay(() => say(`the job goes on: remuster job show ${plain(jobId)}`));
  const isForPeople = flags.output === 'table' || flags.output === 'wide';
  const screen = openScreen(new LiveView([]));
  try {
    for await (const progress of site.progress(jobId)) {
      if (isForPeople) screen.told(progress);
      else print(flags.output === 'name' ? progress.status : JSON.stringify(progress));
    }
  } finally {
    screen.end();
  }
  return exitCodeOf(await reportOf(site, jobId));
}

export async function cancelJob(jobId: string, flags: Flags): Promise<number> {
  const site = await jobSite(flags);
  const { status } = thing(await site.change('DELETE', jobPath(jobId))) as { status: JobStatus };
  print(
    await renderThing(
      flags.output,
      { jobId, status },
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

export async function reportJob(jobId: string, flags: Flags & { readonly out?: readonly string[] }): Promise<number> {
  checkOuts(flags.out ?? []);
  const site = await jobSite(flags);
  const report = await reportOf(site, jobId);
  const isForPeople = flags.output === 'table' || flags.output === 'wide';
  print(isForPeople ? reportText(report) : await renderThing(flags.output, report, { name: jobId, lines: [] }));
  const results = async (): Promise<unknown> =>
    report.status === 'COMPLETED' ? await resultsOf(site, jobId) : undefined;
  await writeOuts(flags.out ?? [], report, [], results);
  return exitOk;
}

/** JSON by workflow, to stdout or to a file; piece by piece, however large it is. */
export async function resultOfJob(
  jobId: string,
  flags: Flags & { readonly out?: string; readonly workflow?: string },
): Promise<number> {
  const site = await jobSite(flags);
  const texts = resultTexts(site, jobId, flags.workflow);
  if (flags.out === undefined) {
    for await (const text of texts) process.stdout.write(text);
    print('');
    return exitOk;
  }
  try {
    await pipeline(Readable.from(texts), createWriteStream(flags.out));
  } catch (error) {
    if (error instanceof Error && 'syscall' in error)
      throw new RemusterError('BAD_ARGUMENT', `cannot write ${flags.out}: ${error.message}`);
    throw error;
  }
  say(`wrote ${flags.out}`);
  return exitOk;
}

export async function explainJob(jobId: string, flags: Flags): Promise<number> {
  const site = await jobSite(flags);
  const { lines } = thing(await site.get(jobPath(jobId, '/explain'))) as { lines: readonly string[] };
  const isForPeople = flags.output === 'table' || flags.output === 'wide';
  print(
    isForPeople
      ? lines.map(plain).join('\n')
      : await renderThing(flags.output, { jobId, lines }, { name: jobId, lines: [] }),
  );
  return exitOk;
}

async function shownText(job: JobView, format: 'table' | 'wide'): Promise<string> {
  const { startedAtMs, endedAtMs, queue, error } = job;
  const lines: [string, string][] = [
    ['JOB', `${job.jobId} (${job.name})`],
    ['STATUS', error === undefined ? job.status : `${job.status}: ${error.code}, ${error.message}`],
    ['SUBMITTED', `${momentText(job.submittedAtMs)} by ${job.submitter}, priority ${job.priority}`],
    ['TIMEOUT', elapsedText(job.timeoutMs)],
    ...(startedAtMs === null ? [] : ([['STARTED', momentText(startedAtMs)]] as [string, string][])),
    ...(endedAtMs === null ? [] : ([['ENDED', momentText(endedAtMs)]] as [string, string][])),
    ...(queue === null ? [] : ([['QUEUED', `place ${queue.position}: ${queue.reason}`]] as [string, string][])),
    ['TOTALS', `${countText(job.totals.completed)} completed, ${countText(job.totals.failed)} failed`],
  ];
  const head = await renderThing(format, {}, { name: job.jobId, lines });
  const workflows = await renderList(format, job.workflows, workflowColumns, (row) => row.name);
  return [head, workflows, attemptsText(job, format)].filter((part) => part !== '').join('\n\n');
}

/** What runs and what went wrong; those that simply completed only with `-o wide`. */
function attemptsText(job: JobView, format: 'table' | 'wide'): string {
  const all = job.workflows.flatMap(({ name, attempts }) => attempts.map((one) => ({ name, ...one })));
  const isWide = format === 'wide';
  const shown = isWide ? all : all.filter(({ outcome }) => outcome !== 'completed');
  if (shown.length === 0) return all.length === 0 ? '' : `${all.length} attempts, all completed (-o wide shows them)`;
  const rows = shown.map(({ name, unit, attempt, worker, outcome, fence }) => {
    const row = [plain(name), unitText(unit), String(attempt), plain(worker), outcome];
    return isWide ? row.concat(fence) : row;
  });
  return table(['WORKFLOW', 'UNIT', 'ATTEMPT', 'WORKER', 'OUTCOME', ...(isWide ? ['FENCE'] : [])], rows);
}

function unitText(unit: number): string {
  if (unit === planUnitNumber) return 'setup';
  return unit === finishUnitNumber ? 'teardown' : String(unit);
}

const workflowColumns: readonly Column<WorkflowView>[] = [
  { title: 'WORKFLOW', cell: (row) => row.name },
  { title: 'STATUS', cell: (row) => row.status },
  { title: 'UNITS', cell: ({ units }) => `${units.done} of ${units.total}` },
  { title: 'RUNNING', cell: ({ units }) => String(units.running) },
  { title: 'COMPLETED', cell: (row) => countText(row.completed) },
  { title: 'FAILED', cell: (row) => countText(row.failed) },
  { title: 'RATE', cell: (row) => rateText(row.ratePerSecond) },
  { title: 'NOTE', cell: ({ error }) => (error === undefined ? '' : `${error.code}: ${error.message}`) },
];

function momentText(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString();
}
