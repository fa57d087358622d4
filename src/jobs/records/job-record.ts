/**
 * The stored form of a job, its state, its unit blocks and the manager clock. Decoding is strict: unreadable bytes give
 * undefined, never a guess.
 */
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, optional, record } from '../../messages/codec/compound.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { enumOf, u32, u53, u64 } from '../../messages/codec/numbers.ts';
import { bytes, nodeId, text } from '../../messages/codec/strings.ts';
import { jobStatuses, workflowStatuses } from '../job-types.ts';
import { jobLimits } from '../limits.ts';

/** Largest result of a unit in its record; a larger one is stored out of line, in parts. */
export const inlineResultBytesMax = 1_024;
/** Attempts in a unit record: all that count as tries, and the latest of the others. */
const attemptsMax = 128;
export const incidentsMax = 100;
export const unitsPerBlock = 16;

const outcomes = ['running', 'completed', 'failed', 'cancelled', 'lost', 'refused', 'returned'] as const;
const incidentTypes = [
  'worker.lost',
  'runner.killed',
  'unit.retried',
  'unit.returned',
  'leader.changed',
  'unit.failed',
] as const;

const attemptRecord = record('attempt', {
  worker: field(1, nodeId, 'Node id of the worker.'),
  name: field(2, text(255), 'Name of the worker.'),
  generation: field(3, u32, 'Generation of the worker.'),
  attempt: field(4, u32, 'Attempt number, from 1.'),
  fence: field(5, u64, 'Fence of the leader that assigned it; grows with each attempt.'),
  outcome: field(6, enumOf(...outcomes), 'Outcome of the attempt.'),
});

const resultRecord = record('end', {
  completed: field(1, u53, 'Iterations or items that succeeded.'),
  failed: field(2, u53, 'Iterations or items that failed.'),
  durationMs: field(3, u53, 'Duration of the attempt.'),
  summary: field(4, optional(bytes(inlineResultBytesMax)), 'Summary, if it is small.'),
  output: field(5, optional(bytes(inlineResultBytesMax)), 'Output, if it is small.'),
  summaryBytes: field(6, u53, 'Size of the summary; without `summary` it is stored out of line.'),
  outputBytes: field(7, u53, 'Size of the output; without `output` it is stored out of line.'),
  failures: field(8, optional(bytes(inlineResultBytesMax)), 'Failed items, if the list is small.'),
  failuresBytes: field(9, optional(u53), 'Size of the list; without `failures` it is stored out of line.'),
});

const unitRecord = record('unit', {
  unit: field(1, u32, 'Number of the unit in the workflow.'),
  state: field(2, enumOf('waiting', 'assigned', 'done', 'failed', 'cancelled'), 'State of the unit.'),
  attempts: field(3, list(attemptRecord, attemptsMax), 'Attempts in order.'),
  end: field(4, optional(resultRecord), 'Result of the attempt that counts.'),
});

const workflowRecord = record('workflow', {
  status: field(1, enumOf(...workflowStatuses), 'Status.'),
  phase: field(2, enumOf('none', 'whole', 'plan', 'work', 'finish'), 'Phase whose units exist.'),
  startedMs: field(3, optional(u53), 'First assignment, on the manager clock.'),
  /** Of `work`, or 1 of `whole`; 0 before they are created. */
  units: field(4, u32, 'Number of units.'),
  items: field(5, optional(u53), 'Number of items from the output of the plan.'),
  code: field(6, optional(text(40)), 'Error code of a failure.'),
  message: field(7, optional(text(4_000)), 'Error message.'),
  inline: field(
    8,
    list(unitRecord, jobLimits.unitsMax + 2),
    'Unit records that are not in blocks; plan and finish never are.',
  ),
  found: field(9, optional(u32), 'Number of the unit that found the result of a search.'),
  endedMs: field(10, optional(u53), 'End, on the manager clock.'),
});

const incidentRecord = record('incident', {
  wallMs: field(1, u53, 'Wall clock.'),
  type: field(2, enumOf(...incidentTypes), 'Type.'),
  node: field(3, text(255), 'Name of the node.'),
  effect: field(4, text(500), 'Effect on the job.'),
});

const stateRecord = record('jobState', {
  status: field(1, enumOf(...jobStatuses), 'Status.'),
  startedWallMs: field(2, optional(u53), 'First assignment, wall clock.'),
  endedWallMs: field(3, optional(u53), 'End, wall clock.'),
  startedMs: field(4, optional(u53), 'First assignment, on the manager clock.'),
  endedMs: field(5, optional(u53), 'End, on the manager clock.'),
  code: field(6, optional(text(40)), 'Error code of a failure.'),
  message: field(7, optional(text(4_000)), 'Error message.'),
  workflows: field(8, list(workflowRecord, jobLimits.workflowsMax), 'Workflows in the order of the request.'),
  incidents: field(9, list(incidentRecord, incidentsMax), 'Incidents in order.'),
});

const valueBytesMax = 1_048_576;
const declare = { carrier: 'stream', from: ['manager'], bytesMax: valueBytesMax } as const;

const job = message({
  ...{ kind: 'job', tag: 1, ...declare, doc: 'The request and the first state; never rewritten.' },
  fields: {
    submitter: field(1, text(256), 'User on whose behalf the job runs.'),
    submittedWallMs: field(2, u53, 'Submission, wall clock; for display and start times.'),
    submittedMs: field(3, u53, 'Submission, on the manager clock.'),
    seed: field(4, u53, 'Seed of the job.'),
    key: field(5, optional(text(64)), 'Hash of submitter and idempotency key.'),
    hash: field(6, optional(text(64)), 'Hash of the request, if it has an idempotency key.'),
    requestJson: field(7, text(valueBytesMax), 'The request as it was submitted: JSON.'),
    state: field(8, stateRecord, 'First state.'),
  },
});

const state = message({
  ...{ kind: 'state', tag: 2, ...declare, doc: 'The current state.' },
  fields: { state: field(1, stateRecord, 'Complete state.') },
});

const block = message({
  ...{ kind: 'block', tag: 3, ...declare, doc: 'A block of units.' },
  fields: { units: field(1, list(unitRecord, unitsPerBlock), 'Unit records in order.') },
});

const clock = message({
  ...{ kind: 'clock', tag: 4, ...declare, doc: 'The manager clock.' },
  fields: { ms: field(1, u53, 'Time that all leaders have counted together.') },
});

const codec = createCodec([job, state, block, clock]);
type Any = MessageOf<readonly [typeof job, typeof state, typeof block, typeof clock]>;
export type JobRecord = Omit<Extract<Any, { readonly kind: 'job' }>, 'kind'>;
export type JobStateRecord = JobRecord['state'];
export type WorkflowRecord = JobStateRecord['workflows'][number];
export type UnitRecord = WorkflowRecord['inline'][number];
export type IncidentRecord = JobStateRecord['incidents'][number];

export function encodeJobRecord(value: JobRecord): Uint8Array {
  // No spread: this runs for every job.
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, requestJson, state: first } = value;
  return codec.encode({
    kind: 'job',
    submitter,
    submittedWallMs,
    submittedMs,
    seed,
    key,
    hash,
    requestJson,
    state: first,
  });
}

export function encodeJobState(value: JobStateRecord): Uint8Array {
  return codec.encode({ kind: 'state', state: value });
}

export function encodeUnitBlock(units: readonly UnitRecord[]): Uint8Array {
  return codec.encode({ kind: 'block', units });
}

export function encodeManagerClock(ms: number): Uint8Array {
  return codec.encode({ kind: 'clock', ms: Math.floor(ms) });
}

export function decodeJobRecord(value: Uint8Array): JobRecord | undefined {
  return read(value, 'job');
}

export function decodeJobState(value: Uint8Array): JobStateRecord | undefined {
  return read(value, 'state')?.state;
}

export function decodeUnitBlock(value: Uint8Array): readonly UnitRecord[] | undefined {
  return read(value, 'block')?.units;
}

export function decodeManagerClock(value: Uint8Array): number | undefined {
  return read(value, 'clock')?.ms;
}

/** `bytes` is the size of the result: parts of an earlier, longer attempt may follow and are ignored. */
export function joinRecordParts(parts: readonly Uint8Array[], bytes: number): Uint8Array {
  const out = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    if (at >= bytes) break;
    const slice = part.subarray(0, bytes - at);
    out.set(slice, at);
    at += slice.length;
  }
  return out;
}

function read<K extends Any['kind']>(value: Uint8Array, kind: K): Extract<Any, { readonly kind: K }> | undefined {
  try {
    const found = codec.decode(value);
    return found.kind === kind ? (found as Extract<Any, { readonly kind: K }>) : undefined;
  } catch {
    return undefined;
  }
}
