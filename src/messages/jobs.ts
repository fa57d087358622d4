/**
 * Messages of jobs: client to any node, node to the leading manager, manager to worker and back. An attempt is named by
 * unit, number and fence.
 */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u16, u32, u53, u64, u8 } from './codec/numbers.ts';
import { internedText } from './codec/interned-text.ts';
import { bytes, name, text } from './codec/strings.ts';

const members = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const anybody = [...members, 'client'] as const satisfies readonly Role[];
const managers = ['gate', 'manager'] as const satisfies readonly Role[];
const codeBytesMax = 4_194_304;
const wordsBytesMax = 2_000_000;
const answerBytesMax = 10_400_000;
const summaryBytesMax = 335_872;
const orderBytesMax = 10_200_000;
/** Below what the transport takes in one piece. */
const largeBytesMax = 10_480_000;
const failuresBytesMax = 3_000_000;
const unitsMax = 1_024;
const jobId = text(64);

const storeBundle = message({
  kind: 'storeBundle',
  tag: 140,
  carrier: 'stream',
  from: anybody,
  bytesMax: codeBytesMax + 256,
  doc: 'Keep this code, so that jobs can name it. What is kept already is no error. Answered by bundleStored.',
  fields: {
    sha256: field(1, text(64), 'Of the code, in hexadecimal digits.'),
    code: field(2, bytes(codeBytesMax), 'One module of plain JavaScript.'),
  },
});

const bundleStored = message({
  kind: 'bundleStored',
  tag: 141,
  carrier: 'stream',
  from: members,
  bytesMax: 256,
  doc: 'The answer to storeBundle.',
  fields: { sha256: field(1, text(64), 'Of the code.') },
});

export const jobVerbs = [
  'submit',
  'list',
  'show',
  'watch',
  'report',
  'result',
  'failures',
  'cancel',
  'explain',
  'schedules',
  'unschedule',
] as const;
export type JobVerb = (typeof jobVerbs)[number];

const jobOrder = message({
  kind: 'jobOrder',
  tag: 142,
  carrier: 'stream',
  from: anybody,
  bytesMax: wordsBytesMax + 512,
  doc: 'Something about jobs, for the manager that leads; others pass it on. Answered by jobTold or an error.',
  fields: {
    verb: field(1, enumOf(...jobVerbs), 'What.'),
    args: field(2, internedText(wordsBytesMax), 'With which arguments: JSON.'),
    hops: field(3, u8, 'How often it was passed on already.'),
    submitter: field(4, internedText(256), 'On whose behalf. Only members may name somebody other than themselves.'),
    waitMs: field(5, optional(u32), 'Of submit: answer when the job is over, at the latest after so long.'),
    key: field(
      6,
      optional(text(1_024)),
      'Of submit: its idempotencyKey, if the words, which others may share, have none.',
    ),
  },
});

const jobTold = message({
  kind: 'jobTold',
  tag: 143,
  carrier: 'stream',
  from: members,
  bytesMax: largeBytesMax,
  doc: 'The answer to jobOrder.',
  fields: { answer: field(1, text(answerBytesMax), 'JSON.') },
});

const attempt = {
  job: field(1, jobId, 'The job.'),
  workflow: field(2, u16, 'Which of its workflows.'),
  unit: field(3, u32, 'Which unit of that.'),
  attempt: field(4, u32, 'For the how-manyth time, counted from 1.'),
  fence: field(5, u64, 'Under which it was given.'),
};

const attemptName = record('attemptName', attempt);

const givenUnit = record('givenUnit', {
  ...attempt,
  spec: field(6, bytes(orderBytesMax), 'What to do (jobs/unit-words.ts).'),
  mayWait: field(7, bool, 'It may wait for a free core for a short while; otherwise it has one now or is refused.'),
});

const giveUnits = message({
  kind: 'giveUnits',
  tag: 144,
  carrier: 'stream',
  from: managers,
  bytesMax: largeBytesMax,
  doc: 'Run these. Given twice they run once. Answered by unitsTaken.',
  fields: {
    term: field(1, u32, 'Of the leader; lower ones than the worker has seen are FENCED.'),
    generation: field(2, u32, 'Of the worker that is meant.'),
    units: field(3, list(givenUnit, unitsMax), 'In order.'),
  },
});

const takenUnit = record('takenUnit', {
  code: field(1, optional(text(40)), 'Why it was refused; taken without one.'),
  why: field(2, optional(text(500)), 'The same for people.'),
});

const unitsTaken = message({
  kind: 'unitsTaken',
  tag: 145,
  carrier: 'stream',
  from: members,
  bytesMax: unitsMax * 600,
  doc: 'The answer to giveUnits: one for each, in the same order.',
  fields: {
    units: field(1, list(takenUnit, unitsMax), 'What became of them.'),
  },
});

const stopUnits = message({
  kind: 'stopUnits',
  tag: 146,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 160,
  doc: 'End these attempts, whatever they are doing. Answered by unitsStopped when none of them runs any more.',
  fields: {
    term: field(1, u32, 'Of the leader.'),
    units: field(2, list(attemptName, unitsMax), 'Which.'),
    why: field(3, enumOf('cancelled', 'timeout', 'superseded'), 'For what reason.'),
  },
});

const unitsStopped = message({
  kind: 'unitsStopped',
  tag: 147,
  carrier: 'stream',
  from: members,
  bytesMax: 256,
  doc: 'The answer to stopUnits: none of them runs here now.',
  fields: {},
});

const unitNews = record('unitNews', {
  ...attempt,
  /** `returned`: the worker gives it back unharmed (it stops, or could not begin in time); that is no failure. */
  status: field(6, enumOf('started', 'progress', 'completed', 'failed', 'cancelled', 'returned'), 'What became of it.'),
  completed: field(7, u53, 'Iterations or items that went well.'),
  failed: field(8, u53, 'Those that went wrong.'),
  summary: field(9, optional(bytes(summaryBytesMax)), 'Numbers and histograms so far (jobs/report/summary.ts).'),
  output: field(10, optional(bytes(answerBytesMax)), 'JSON of what it gave, at its end.'),
  code: field(11, optional(text(40)), 'Why it failed.'),
  why: field(12, optional(text(4_000)), 'The same for people.'),
  found: field(13, optional(bool), 'Batch: it has what the whole workflow was looking for.'),
  durationMs: field(14, optional(u53), 'How long it ran.'),
  failures: field(15, optional(bytes(failuresBytesMax)), 'Failed items (jobs/report/item-failures.ts).'),
});

const tellUnits = message({
  kind: 'tellUnits',
  tag: 148,
  carrier: 'stream',
  from: members,
  bytesMax: largeBytesMax,
  doc: 'What became of units at a worker: of each the latest, and each end until it was heard. Answered by unitsHeard.',
  fields: {
    generation: field(1, u32, 'The life of the worker.'),
    reports: field(3, list(unitNews, unitsMax), 'In any order.'),
  },
});

const unitsHeard = message({
  kind: 'unitsHeard',
  tag: 149,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 320,
  doc: 'The answer to tellUnits. Ends that are named here are recorded, or nobody waits for them: the worker forgets them.',
  fields: {
    heard: field(1, list(attemptName, unitsMax), 'Ends that need not be told again.'),
    stop: field(2, list(attemptName, unitsMax), 'Attempts that are superseded: the worker ends them.'),
  },
});

const workerReport = message({
  kind: 'workerReport',
  tag: 150,
  carrier: 'stream',
  from: members,
  bytesMax: unitsMax * 160,
  doc: 'A worker says what it is and what it runs: to each new leader at once, and again before its lease is over. Answered by workerHeard; FENCED when a later life of it is known.',
  fields: {
    generation: field(1, u32, 'The life of the worker.'),
    coresTotal: field(2, u16, 'All.'),
    level: field(4, name, 'How loaded it is: normal, elevated, high, severe, critical.'),
    draining: field(5, bool, 'It takes nothing new.'),
    attempts: field(6, list(attemptName, unitsMax), 'All that it runs or has not told the end of.'),
    isolation: field(7, enumOf('full', 'weak'), 'How well the code of users is locked in there.'),
  },
});

const workerHeard = message({
  kind: 'workerHeard',
  tag: 151,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 160,
  doc: 'The answer to workerReport: go on for so long, counted by the worker from when it asked. What it runs ends by itself when no answer comes for 0.8 of that.',
  fields: {
    term: field(1, u32, 'Of the leader.'),
    leaseMs: field(2, u32, 'The full time.'),
    stop: field(3, list(attemptName, unitsMax), 'Attempts that are superseded: the worker ends them.'),
  },
});

export const jobMessages = [
  ...([storeBundle, bundleStored, jobOrder, jobTold, giveUnits, unitsTaken, stopUnits, unitsStopped] as const),
  ...([tellUnits, unitsHeard, workerReport, workerHeard] as const),
] as const;

export type JobMessage = MessageOf<typeof jobMessages>;
export type JobMessageOf<K extends JobMessage['kind']> = Extract<JobMessage, { readonly kind: K }>;
export type UnitReport = JobMessageOf<'tellUnits'>['reports'][number];
export type UnitAssignment = JobMessageOf<'giveUnits'>['units'][number];
export type AttemptId = JobMessageOf<'workerReport'>['attempts'][number];
