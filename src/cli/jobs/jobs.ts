/**
 * `remuster job submit|list|show|watch|cancel|report|explain`: submits, lists, shows, follows, cancels and explains
 * jobs.
 */
import type { JobRow, JobView, JobStatus, WorkflowView } from '../../jobs/job-types.ts';
import { finishUnitNumber, planUnitNumber } from '../../jobs/unit-spec.ts';
import { formatAmount, formatCount, formatElapsed, formatRate } from '../output/amounts.ts';
import { exitOk } from '../command/exit.ts';
import { withQuery } from '../command/http-client.ts';
import { exitCodeOfJob, fetchReport, fetchResults, hasResults } from './job-outcome.ts';
import { jobPath, openJobHttpClient, withoutSchemaVersion } from './job-client.ts';
import {
  type ScheduleFlags,
  type SubmissionFlags,
  checkDatacenter,
  prepareSubmission,
  submitPrepared,
} from './job-submission.ts';
import { openLiveScreen } from './live-screen.ts';
import { LiveView } from './live-view.ts';
import { type Column, type OutputFormat, renderList, renderObject, renderTable } from '../output/render.ts';
import { checkReportFiles, writeReportFiles } from './report-files.ts';
import { formatReport } from './report-text.ts';
import { printOnInterrupt } from '../command/signals.ts';
import type { TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

type Flags = TargetFlags & { readonly output: OutputFormat };

const jobColumns: readonly Column<JobRow>[] = [
  { title: 'JOB', cell: (row) => row.jobId },
  { title: 'NAME', cell: (row) => row.name },
  { title: 'STATUS', cell: (row) => row.status },
  { title: 'SUBMITTED', cell: (row) => timeText(row.submittedAtMs) },
  { title: 'ENDED', wide: true, cell: (row) => timeText(row.endedAtMs) },
  { title: 'BY', wide: true, cell: (row) => row.submitter },
  { title: 'COMPLETED', cell: (row) => formatCount(row.completed) },
  { title: 'FAILED', cell: (row) => formatCount(row.failed) },
];

export async function jobListCommand(
  flags: Flags & { readonly limit?: number; readonly status?: string; readonly watch?: true },
): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { limit, status } = flags;
  const query = {
    ...(limit === undefined ? {} : { limit: String(limit) }),
    ...(status === undefined ? {} : { status: status.toUpperCase() }),
  };
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const { items } = (await client.get(withQuery('/v1/jobs', query))) as { items: JobRow[] };
    return { text: await renderList(flags.output, items, jobColumns, (row) => row.jobId) };
  });
}

export async function jobSubmitCommand(file: string, flags: Flags & SubmissionFlags & ScheduleFlags): Promise<number> {
  const client = await openJobHttpClient(flags);
  const submission = await prepareSubmission(file, flags);
  await checkDatacenter(client, flags);
  const { jobId, status, isNew } = await submitPrepared(client, submission);
  const lines: [string, string][] =
    flags.cron === undefined
      ? [
          ['JOB', jobId],
          ['STATUS', status],
          ['NEW', isNew ? 'yes' : 'no, this key was submitted before'],
        ]
      : [['SCHEDULE', flags.key ?? jobId]];
  printData(await renderObject(flags.output, { jobId, status, isNew }, { name: jobId, lines }));
  return exitOk;
}

export async function jobShowCommand(jobId: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { output } = flags;
  return await printOrWatch(output, flags.watch === true, async () => {
    const job = withoutSchemaVersion(await client.get(jobPath(jobId))) as JobView;
    if (output === 'table' || output === 'wide') return { text: await jobText(job, output) };
    return { text: await renderObject(output, job, { name: job.jobId, lines: [] }) };
  });
}

/** Ctrl-C ends the command, not the job. */
export async function jobWatchCommand(jobId: string, flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  printOnInterrupt(() => printNotice(`the job continues: remuster job show ${stripControls(jobId)}`));
  const isTable = flags.output === 'table' || flags.output === 'wide';
  const screen = openLiveScreen(new LiveView([]));
  try {
    for await (const progress of client.progress(jobId)) {
      if (isTable) screen.update(progress);
      else printData(flags.output === 'name' ? progress.status : JSON.stringify(progress));
    }
  } finally {
    screen.end();
  }
  return exitCodeOfJob(await fetchReport(client, jobId));
}

export async function jobCancelCommand(jobId: string, flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { status } = withoutSchemaVersion(await client.change('DELETE', jobPath(jobId))) as { status: JobStatus };
  printData(
    await renderObject(
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

export async function jobReportCommand(
  jobId: string,
  flags: Flags & { readonly out?: readonly string[] },
): Promise<number> {
  checkReportFiles(flags.out ?? []);
  const client = await openJobHttpClient(flags);
  const report = await fetchReport(client, jobId);
  const isTable = flags.output === 'table' || flags.output === 'wide';
  printData(isTable ? formatReport(report) : await renderObject(flags.output, report, { name: jobId, lines: [] }));
  const results = async (): Promise<unknown> => (hasResults(report) ? await fetchResults(client, jobId) : undefined);
  await writeReportFiles(flags.out ?? [], report, [], results);
  return exitOk;
}

export async function jobExplainCommand(jobId: string, flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { lines } = withoutSchemaVersion(await client.get(jobPath(jobId, '/explain'))) as { lines: readonly string[] };
  const isTable = flags.output === 'table' || flags.output === 'wide';
  printData(
    isTable
      ? lines.map(stripControls).join('\n')
      : await renderObject(flags.output, { jobId, lines }, { name: jobId, lines: [] }),
  );
  return exitOk;
}

async function jobText(job: JobView, format: 'table' | 'wide'): Promise<string> {
  const { startedAtMs, endedAtMs, queue } = job;
  const lines: [string, string][] = [
    ['JOB', `${job.jobId} (${job.name})`],
    ['STATUS', statusText(job)],
    ['SUBMITTED', `${timeText(job.submittedAtMs)} by ${job.submitter}, priority ${job.priority}`],
    ['TIMEOUT', formatElapsed(job.timeoutMs)],
    ...(startedAtMs === null ? [] : ([['STARTED', timeText(startedAtMs)]] as [string, string][])),
    ...(endedAtMs === null ? [] : ([['ENDED', timeText(endedAtMs)]] as [string, string][])),
    ...(queue === null ? [] : ([['QUEUED', `position ${queue.position}: ${queue.reason}`]] as [string, string][])),
    ['TOTALS', `${formatCount(job.totals.completed)} completed, ${formatCount(job.totals.failed)} failed`],
  ];
  const head = await renderObject(format, {}, { name: job.jobId, lines });
  const workflows = await renderList(format, job.workflows, workflowColumns, (row) => row.name);
  return [head, workflows, attemptsText(job, format)].filter((part) => part !== '').join('\n\n');
}

/** The status with the error; its code is omitted if it equals the status. */
function statusText({ status, error }: JobView): string {
  if (error === undefined) return status;
  return error.code === status ? `${status}: ${error.message}` : `${status}: ${error.code}, ${error.message}`;
}

/** Running and failed attempts; `-o wide` adds the completed ones. */
function attemptsText(job: JobView, format: 'table' | 'wide'): string {
  const all = job.workflows.flatMap(({ name, attempts }) => attempts.map((one) => ({ name, ...one })));
  const isWide = format === 'wide';
  const shown = isWide ? all : all.filter(({ outcome }) => outcome !== 'completed');
  if (shown.length === 0) return all.length === 0 ? '' : completedAttemptsText(all.length);
  const rows = shown.map(({ name, unit, attempt, worker, outcome, fence }) => {
    const row = [stripControls(name), unitText(unit), String(attempt), stripControls(worker), outcome];
    return isWide ? row.concat(fence) : row;
  });
  return renderTable(['WORKFLOW', 'UNIT', 'ATTEMPT', 'WORKER', 'OUTCOME', ...(isWide ? ['FENCE'] : [])], rows);
}

/** The attempts ran to the end, although items may have failed in them. */
function completedAttemptsText(count: number): string {
  const which = count === 1 ? 'which' : 'all of which';
  return `${formatAmount(count, 'attempt')}, ${which} ran to the end (-o wide lists them)`;
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
  { title: 'COMPLETED', cell: (row) => formatCount(row.completed) },
  { title: 'FAILED', cell: (row) => formatCount(row.failed) },
  { title: 'RATE', cell: (row) => formatRate(row.ratePerSecond) },
  { title: 'NOTE', cell: ({ error }) => (error === undefined ? '' : `${error.code}: ${error.message}`) },
];

function timeText(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString();
}
