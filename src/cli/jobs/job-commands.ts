/** Declares the commands about jobs and schedules. */
import type { Command } from 'commander';
import type { ScheduleFlags, SubmissionFlags } from './job-submission.ts';
import { type ReadFlags, addReadCommand, integerFlag } from '../command/command-flags.ts';
import type { RunFlags } from './run.ts';

type Finish = (exitCode: number) => void;

export function addJobCommands(program: Command, finish: Finish): void {
  addRun(program, finish);
  const job = program.command('job').description('workflows at work').helpGroup('Operate:');
  addSubmit(job, finish);
  addLooks(job, finish);
  addEnds(job, finish);
  addSchedules(program, finish);
}

/** What a job can be given that its file does not say. */
function submitter(parent: Command, words: string, sentence: string): Command {
  return addReadCommand(parent, words, sentence)
    .helpGroup('Run:')
    .option('--cores <count>', 'cores of each workflow', integerFlag('--cores', 1))
    .option('--vus <count>', 'users of load tests', integerFlag('--vus', 1))
    .option('--duration <duration>', 'how long load tests last')
    .option('--iterations <count>', 'iterations of load tests, of all users together', integerFlag('--iterations', 1))
    .option('--set <key=value>', 'another value for a field of the workflows; repeatable', gathered)
    .option('--env <key=value>', 'for ctx.env; repeatable', gathered)
    .option('--name <name>', 'for people')
    .option('--key <key>', 'the same key with the same content is the same job')
    .option('--priority <number>', '0 to 9; higher ones go first', integerFlag('--priority', 0))
    .option('--timeout <duration>', 'of the whole job')
    .option('--seed <number>', 'for ctx.random', integerFlag('--seed', 0))
    .option('--dc <names>', 'datacenter it is to run in')
    .option('--dc-count <count>', 'in how many datacenters', integerFlag('--dc-count', 1));
}

function gathered(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

function addRun(program: Command, finish: Finish): void {
  submitter(program, 'run <file>', 'run the workflows of a file on the cluster, watch, and print the report')
    .option('--out <file>', 'also write the report: .html a page, .json with the results; repeatable', gathered)
    .option('--detach', 'only print the id of the job')
    .addHelpText(
      'after',
      '\nExit code 99 when a threshold fails, 1 when the job does, 4 when a part of it did. Ctrl-C cancels the job.',
    )
    .action(async (file: string, flags: RunFlags) => {
      const { runCommand } = await import('./run.ts');
      finish(await runCommand(file, flags));
    });
}

function addSubmit(job: Command, finish: Finish): void {
  submitter(job, 'submit <file>', 'submit the workflows of a file; ends when the managers have recorded the job')
    .option('--at <moment>', 'not before this moment (ISO 8601)')
    .option('--in <duration>', 'not before so long from now')
    .option('--cron <fields>', 'again and again: five fields, UTC; --key names the schedule')
    .action(async (file: string, flags: ReadFlags & SubmissionFlags & ScheduleFlags) => {
      const { jobSubmitCommand } = await import('./jobs.ts');
      finish(await jobSubmitCommand(file, flags));
    });
}

function addLooks(job: Command, finish: Finish): void {
  addReadCommand(job, 'list', 'jobs, the latest first')
    .option('--limit <count>', 'at most so many', integerFlag('--limit', 1))
    .option('--status <status>', 'only those')
    .option('--watch', 'print again when something changes')
    .action(async (flags: ReadFlags & { limit?: number; status?: string; watch?: true }) => {
      const { jobListCommand } = await import('./jobs.ts');
      finish(await jobListCommand(flags));
    });
  addReadCommand(job, 'show <id>', 'one job: its workflows, and who tried them')
    .option('--watch', 'print again when something changes')
    .action(async (id: string, flags: ReadFlags & { watch?: true }) => {
      const { jobShowCommand } = await import('./jobs.ts');
      finish(await jobShowCommand(id, flags));
    });
  addReadCommand(job, 'watch <id>', 'follow a job to its end; Ctrl-C only stops the watching').action(
    async (id: string, flags: ReadFlags) => {
      const { jobWatchCommand } = await import('./jobs.ts');
      finish(await jobWatchCommand(id, flags));
    },
  );
  addReadCommand(job, 'explain <id>', 'why a job is where it is, or waits').action(
    async (id: string, flags: ReadFlags) => {
      const { jobExplainCommand } = await import('./jobs.ts');
      finish(await jobExplainCommand(id, flags));
    },
  );
}

function addEnds(job: Command, finish: Finish): void {
  addReadCommand(job, 'cancel <id>', 'end a job, in whatever state it is')
    .helpGroup('Operate:')
    .action(async (id: string, flags: ReadFlags) => {
      const { jobCancelCommand } = await import('./jobs.ts');
      finish(await jobCancelCommand(id, flags));
    });
  addReadCommand(job, 'report <id>', 'the report of a job that is over')
    .option('--out <file>', 'also write it: .html a page, .json with the results; repeatable', gathered)
    .action(async (id: string, flags: ReadFlags & { out?: readonly string[] }) => {
      const { jobReportCommand } = await import('./jobs.ts');
      finish(await jobReportCommand(id, flags));
    });
  addReadCommand(job, 'result <id>', 'what the workflows of a job gave: 50 lines on a terminal, all of it elsewhere')
    .option('--workflow <name>', 'only of this one')
    .option('--out <file>', 'to a file, however large')
    .action(async (id: string, flags: ReadFlags & { out?: string; workflow?: string }) => {
      const { jobResultCommand } = await import('./job-results.ts');
      finish(await jobResultCommand(id, flags));
    });
  addReadCommand(job, 'failures <id>', 'the failed items of a job that is over, at most 1,000 of a workflow')
    .option('--workflow <name>', 'only of this one')
    .action(async (id: string, flags: ReadFlags & { workflow?: string }) => {
      const { jobFailuresCommand } = await import('./job-results.ts');
      finish(await jobFailuresCommand(id, flags));
    });
}

function addSchedules(program: Command, finish: Finish): void {
  const schedule = program
    .command('schedule')
    .description('jobs that are submitted by the clock (job submit --cron)')
    .helpGroup('Operate:');
  addReadCommand(schedule, 'list', 'all schedules').action(async (flags: ReadFlags) => {
    const { scheduleListCommand } = await import('./schedules.ts');
    finish(await scheduleListCommand(flags));
  });
  addReadCommand(schedule, 'delete <name>', 'no further jobs of this schedule')
    .helpGroup('Operate:')
    .action(async (name: string, flags: ReadFlags) => {
      const { scheduleDeleteCommand } = await import('./schedules.ts');
      finish(await scheduleDeleteCommand(name, flags));
    });
}
