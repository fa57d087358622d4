/**
 * Messages of jobs: client to any node, node to the leading manager, manager to worker and back. An attempt is named by
 * unit, number and fence.
 */
import type { Role } from '../base/ports.ts';
import { field, list, optional, record } from './codec/compound.ts';
import { type MessageOf, message } from './codec/message.ts';
import { bool, enumOf, u16, u32, u53, u64, u8 } from './codec/numbers.ts';
import { bytes, name, text } from './codec/strings.ts';

const nodeRoles = ['gate', 'manager', 'worker'] as const satisfies readonly Role[];
const allRoles = [...nodeRoles, 'client'] as const satisfies readonly Role[];
const managers = ['gate', 'manager'] as const satisfies readonly Role[];
const codeBytesMax = 4_194_304;
const argsBytesMax = 2_000_000;
const answerBytesMax = 10_400_000;
const summaryBytesMax = 335_872;
const specBytesMax = 10_200_000;
/** Below the message limit of the transport. */
const largeBytesMax = 10_480_000;
const failuresBytesMax = 3_000_000;
const unitsMax = 1_024;
const jobId = text(64);

const storeBundle = message({
  kind: 'storeBundle',
  tag: 140,
  carrier: 'stream',
  from: allRoles,
  bytesMax: codeBytesMax + 256,
  doc: 'Stores a bundle, so that jobs can name it; idempotent. Answered by storeBundleReply.',
  fields: {
    sha256: field(1, text(64), 'SHA-256 of the code in hex.'),
    code: field(2, bytes(codeBytesMax), 'One module of plain JavaScript.'),
  },
});

const storeBundleReply = message({
  kind: 'storeBundleReply',
  tag: 141,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 256,
  doc: 'Reply to storeBundle.',
  fields: { sha256: field(1, text(64), 'SHA-256 of the code in hex.') },
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

const jobRequest = message({
  kind: 'jobRequest',
  tag: 142,
  carrier: 'stream',
  from: allRoles,
  bytesMax: argsBytesMax + 512,
  doc: 'A job command for the leading manager; other nodes forward it. Answered by jobReply or an error.',
  fields: {
    verb: field(1, enumOf(...jobVerbs), 'Command.'),
    args: field(2, text(argsBytesMax), 'Arguments: JSON.'),
    hops: field(3, u8, 'How often the request was forwarded.'),
    submitter: field(
      4,
      text(256),
      'User on whose behalf the request is made. Only nodes of the cluster may name another one than themselves.',
    ),
    waitMs: field(5, optional(u32), 'With submit: reply when the job has ended, at the latest after this time.'),
    idempotencyKey: field(
      6,
      optional(text(1_024)),
      'With submit: the idempotency key, if `args`, which other submissions may share, has none.',
    ),
  },
});

const jobReply = message({
  kind: 'jobReply',
  tag: 143,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: largeBytesMax,
  doc: 'Reply to jobRequest.',
  fields: { answer: field(1, text(answerBytesMax), 'Result: JSON.') },
});

const attempt = {
  job: field(1, jobId, 'Job id.'),
  workflow: field(2, u16, 'Number of the workflow in the job.'),
  unit: field(3, u32, 'Number of the unit in the workflow.'),
  attempt: field(4, u32, 'Attempt number, from 1.'),
  fence: field(5, u64, 'Fence of the leader that assigned it.'),
};

const attemptId = record('attemptId', attempt);

const unitAssignment = record('unitAssignment', {
  ...attempt,
  spec: field(6, bytes(specBytesMax), 'What to run (jobs/unit-spec.ts).'),
  mayWait: field(
    7,
    bool,
    'The unit may wait a short time for a free core; otherwise the worker refuses it if none is free.',
  ),
});

const assignUnits = message({
  kind: 'assignUnits',
  tag: 144,
  carrier: 'stream',
  from: managers,
  bytesMax: largeBytesMax,
  doc: 'Assigns units to a worker; an attempt that is assigned twice runs once. Answered by assignUnitsReply.',
  fields: {
    term: field(1, u32, 'Term of the leader; a term lower than the worker has seen is refused with FENCED.'),
    generation: field(2, u32, 'Generation of the worker.'),
    units: field(3, list(unitAssignment, unitsMax), 'Units in the order of their start.'),
  },
});

const unitAssignmentResult = record('unitAssignmentResult', {
  code: field(1, optional(text(40)), 'Error code; absent if the worker accepted the unit.'),
  message: field(2, optional(text(500)), 'Message for people.'),
});

const assignUnitsReply = message({
  kind: 'assignUnitsReply',
  tag: 145,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: unitsMax * 600,
  doc: 'Reply to assignUnits: one result per unit, in the same order.',
  fields: {
    units: field(1, list(unitAssignmentResult, unitsMax), 'Results.'),
  },
});

const stopUnits = message({
  kind: 'stopUnits',
  tag: 146,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 160,
  doc: 'Stops attempts in any state. Answered by stopUnitsReply when none of them runs.',
  fields: {
    term: field(1, u32, 'Term of the leader.'),
    units: field(2, list(attemptId, unitsMax), 'Attempts to stop.'),
    reason: field(3, enumOf('cancelled', 'timeout', 'superseded'), 'Reason.'),
  },
});

const stopUnitsReply = message({
  kind: 'stopUnitsReply',
  tag: 147,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: 256,
  doc: 'Reply to stopUnits: none of the attempts runs on the worker.',
  fields: {},
});

const unitReport = record('unitReport', {
  ...attempt,
  /** `returned`: the worker stops or could not start the unit in time; this is not a failed attempt. */
  status: field(
    6,
    enumOf('started', 'progress', 'completed', 'failed', 'cancelled', 'returned'),
    'Status of the attempt.',
  ),
  completed: field(7, u53, 'Iterations or items that succeeded.'),
  failed: field(8, u53, 'Iterations or items that failed.'),
  summary: field(9, optional(bytes(summaryBytesMax)), 'Counters and histograms so far (jobs/report/summary.ts).'),
  output: field(10, optional(bytes(answerBytesMax)), 'Output at its end: JSON.'),
  code: field(11, optional(text(40)), 'Error code of a failure.'),
  message: field(12, optional(text(4_000)), 'Message for people.'),
  found: field(13, optional(bool), 'In a batch: the unit found the result that ends the workflow.'),
  durationMs: field(14, optional(u53), 'Duration of the attempt.'),
  failures: field(15, optional(bytes(failuresBytesMax)), 'Failed items (jobs/report/item-failures.ts).'),
});

const reportUnits = message({
  kind: 'reportUnits',
  tag: 148,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: largeBytesMax,
  doc: 'Latest status of the units of a worker; an end is repeated until it is acknowledged. Answered by reportUnitsAck.',
  fields: {
    generation: field(1, u32, 'Generation of the worker.'),
    reports: field(3, list(unitReport, unitsMax), 'Reports in any order.'),
  },
});

const reportUnitsAck = message({
  kind: 'reportUnitsAck',
  tag: 149,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 320,
  doc: 'Reply to reportUnits. The worker drops acknowledged ends: they are recorded or no longer needed.',
  fields: {
    acknowledged: field(1, list(attemptId, unitsMax), 'Attempts whose end need not be reported again.'),
    stop: field(2, list(attemptId, unitsMax), 'Superseded attempts, which the worker stops.'),
  },
});

const workerHeartbeat = message({
  kind: 'workerHeartbeat',
  tag: 150,
  carrier: 'stream',
  from: nodeRoles,
  bytesMax: unitsMax * 160,
  doc: 'A worker lists its attempts and renews its lease: at once with each new leader, and before the lease ends. Answered by workerHeartbeatReply, or FENCED if a later generation of the worker is known.',
  fields: {
    generation: field(1, u32, 'Generation of the worker.'),
    coresTotal: field(2, u16, 'Number of cores.'),
    loadLevel: field(4, name, 'Load level: normal, elevated, high, severe or critical.'),
    draining: field(5, bool, 'The worker accepts no new unit.'),
    attempts: field(6, list(attemptId, unitsMax), 'Attempts that run or whose end is not acknowledged.'),
    isolation: field(7, enumOf('full', 'weak'), 'Isolation of user code on the worker.'),
  },
});

const workerHeartbeatReply = message({
  kind: 'workerHeartbeatReply',
  tag: 151,
  carrier: 'stream',
  from: managers,
  bytesMax: unitsMax * 160,
  doc: 'Renews the lease of the worker, which counts it from the moment of its request. Without a reply for 0.8 of the lease the worker stops its attempts.',
  fields: {
    term: field(1, u32, 'Term of the leader.'),
    leaseMs: field(2, u32, 'Full duration of the lease.'),
    stop: field(3, list(attemptId, unitsMax), 'Superseded attempts, which the worker stops.'),
  },
});

export const jobMessages = [
  ...([
    storeBundle,
    storeBundleReply,
    jobRequest,
    jobReply,
    assignUnits,
    assignUnitsReply,
    stopUnits,
    stopUnitsReply,
  ] as const),
  ...([reportUnits, reportUnitsAck, workerHeartbeat, workerHeartbeatReply] as const),
] as const;

export type JobMessage = MessageOf<typeof jobMessages>;
export type JobMessageOf<K extends JobMessage['kind']> = Extract<JobMessage, { readonly kind: K }>;
export type UnitReport = JobMessageOf<'reportUnits'>['reports'][number];
export type UnitAssignment = JobMessageOf<'assignUnits'>['units'][number];
export type AttemptId = JobMessageOf<'workerHeartbeat'>['attempts'][number];
