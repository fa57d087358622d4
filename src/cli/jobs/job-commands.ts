/** Declares the commands about jobs and schedules. What a command does is imported when it runs. */
import type { Command } from 'commander';
import type { ScheduleFlags, SubmissionFlags } from './job-submission.ts';
import { type Finish, type ReadFlags, addReadCommand, integerFlag, watchHelp } from '../command/command-flags.ts';
import type { RunFlags } from './run.ts';

export function addJobCommands(program: Command, finish: Finish): void {
  addRun(program, finish);
  const job = program.command('job').description('submitted workflows: load tests and batches').helpGroup('Operate:');
  addSubmit(job, finish);
  addInspection(job, finish);
  addResults(job, finish);
  addSchedules(program, finish);
}

/** Declares a command that submits a file; its flags override fields of the workflows. */
function addSubmitCommand(parent: Command, usage: string, description: string): Command {
  return addReadCommand(parent, usage, description)
    .helpGroup('Run:')
    .option('--cores <count>', 'cores of each workflow', integerFlag('--cores', 1))
    .option('--vus <count>', 'virtual users of the load tests', integerFlag('--vus', 1))
    .option('--duration <duration>', 'duration of the load tests')
    .option(
      '--iterations <count>',
      'iterations of the load tests, of all virtual users together',
      integerFlag('--iterations', 1),
    )
    .option('--set <key=value>', 'override a field of the workflows; repeatable', collect)
    .option('--env <key=value>', 'set a variable of ctx.env; repeatable', collect)
    .option('--name <name>', 'name of the job in lists and reports')
    .option('--key <key>', 'idempotency key: the same key with the same content is the same job')
    .option('--priority <number>', '0 to 9; jobs with a higher priority start first', integerFlag('--priority', 0))
    .option('--timeout <duration>', 'time limit of the whole job')
    .option('--seed <number>', 'seed of ctx.random', integerFlag('--seed', 0))
    .option('--dc <names>', 'datacenter to run in')
    .option('--dc-count <count>', 'number of datacenters to run in', integerFlag('--dc-count', 1));
}

function collect(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

function addRun(program: Command, finish: Finish): void {
  addSubmitCommand(program, 'run <file>', 'run the workflows of a file, follow them, and print the report')
    .option(
      '--out <file>',
      'also write the report to a file: .html a page, .json with the results; repeatable',
      collect,
    )
    .option('--detach', 'print the job id and return at once')
    .addHelpText(
      'after',
      `
Exit codes: 0 completed, 1 failed, 4 partial or timed out, 99 a threshold failed, 130 cancelled. Ctrl-C cancels the job.

Examples:
  remuster run examples/primes.ts
  remuster run checkout.ts --vus 100 --duration 1m --env TARGET=http://127.0.0.1:8080 --out report.html`,
    )
    .action(async (file: string, flags: RunFlags) => {
      const { runCommand } = await import('./run.ts');
      finish(await runCommand(file, flags));
    });
}

function addSubmit(job: Command, finish: Finish): void {
  addSubmitCommand(
    job,
    'submit <file>',
    'submit the workflows of a file; returns when the managers have recorded the job',
  )
    .option('--at <moment>', 'start at this time (ISO 8601)')
    .option('--in <duration>', 'start after this time')
    .option('--cron <fields>', 'submit repeatedly: five cron fields, UTC; --key names the schedule')
    .action(async (file: string, flags: ReadFlags & SubmissionFlags & ScheduleFlags) => {
      const { jobSubmitCommand } = await import('./jobs.ts');
      finish(await jobSubmitCommand(file, flags));
    });
}

function addInspection(job: Command, finish: Finish): void {
  addReadCommand(job, 'list', 'list jobs, newest first')
    .option('--limit <count>', 'list at most this many', integerFlag('--limit', 1))
    .option('--status <status>', 'only jobs with this status')
    .option('--watch', watchHelp)
    .action(async (flags: ReadFlags & { limit?: number; status?: string; watch?: true }) => {
      const { jobListCommand } = await import('./jobs.ts');
      finish(await jobListCommand(flags));
    });
  addReadCommand(job, 'show <id>', 'show one job: its workflows and their attempts')
    .option('--watch', watchHelp)
    .action(async (id: string, flags: ReadFlags & { watch?: true }) => {
      const { jobShowCommand } = await import('./jobs.ts');
      finish(await jobShowCommand(id, flags));
    });
  addReadCommand(job, 'watch <id>', 'follow a job to its end; Ctrl-C does not cancel it').action(
    async (id: string, flags: ReadFlags) => {
      const { jobWatchCommand } = await import('./jobs.ts');
      finish(await jobWatchCommand(id, flags));
    },
  );
  addReadCommand(job, 'explain <id>', 'explain the state of a job, or what it waits for').action(
    async (id: string, flags: ReadFlags) => {
      const { jobExplainCommand } = await import('./jobs.ts');
      finish(await jobExplainCommand(id, flags));
    },
  );
}

function addResults(job: Command, finish: Finish): void {
  addReadCommand(job, 'cancel <id>', 'cancel a job')
    .helpGroup('Operate:')
    .action(async (id: string, flags: ReadFlags) => {
      const { jobCancelCommand } = await import('./jobs.ts');
      finish(await jobCancelCommand(id, flags));
    });
  addReadCommand(job, 'report <id>', 'print the report of a finished job')
    .option('--out <file>', 'also write it to a file: .html a page, .json with the results; repeatable', collect)
    .action(async (id: string, flags: ReadFlags & { out?: readonly string[] }) => {
      const { jobReportCommand } = await import('./jobs.ts');
      finish(await jobReportCommand(id, flags));
    });
  addReadCommand(job, 'result <id>', 'print the results of a job; on a terminal the first 50 lines')
    .option('--workflow <name>', 'only of this workflow')
    .option('--out <file>', 'write all results to a file')
    .action(async (id: string, flags: ReadFlags & { out?: string; workflow?: string }) => {
      const { jobResultCommand } = await import('./job-results.ts');
      finish(await jobResultCommand(id, flags));
    });
  addReadCommand(job, 'failures <id>', 'list the failed items of a finished job, at most 1,000 of each workflow')
    .option('--workflow <name>', 'only of this workflow')
    .action(async (id: string, flags: ReadFlags & { workflow?: string }) => {
      const { jobFailuresCommand } = await import('./job-results.ts');
      finish(await jobFailuresCommand(id, flags));
    });
}

function addSchedules(program: Command, finish: Finish): void {
  const schedule = program
    .command('schedule')
    .description('jobs that are submitted on a schedule (job submit --cron)')
    .helpGroup('Operate:');
  addReadCommand(schedule, 'list', 'list the schedules').action(async (flags: ReadFlags) => {
    const { scheduleListCommand } = await import('./schedules.ts');
    finish(await scheduleListCommand(flags));
  });
  addReadCommand(schedule, 'delete <name>', 'delete a schedule; its jobs continue')
    .helpGroup('Operate:')
    .action(async (name: string, flags: ReadFlags) => {
      const { scheduleDeleteCommand } = await import('./schedules.ts');
      finish(await scheduleDeleteCommand(name, flags));
    });
}
