/**
 * Owns the stored form of a job, its state, unit blocks and the manager clock. Decoding is strict: unreadable bytes
 * give undefined, never a guess.
 */
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, optional, record } from '../../messages/codec/compound.ts';
import { type MessageOf, message } from '../../messages/codec/message.ts';
import { enumOf, u32, u53, u64 } from '../../messages/codec/numbers.ts';
import { internedText } from '../../messages/codec/interned-text.ts';
import { bytes, nodeId, text } from '../../messages/codec/strings.ts';
import { jobStatuses, workflowStatuses } from '../job-types.ts';
import { jobLimits } from '../limits.ts';

/** Of one unit, in its record: larger ones lie apart, in parts. */
export const inlineResultBytesMax = 1_024;
/** Attempts of a unit that are remembered: all that count, and the latest of those that do not. */
const attemptsKeptMax = 128;
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
  worker: field(1, nodeId, 'Who.'),
  name: field(2, text(255), 'Its name.'),
  generation: field(3, u32, 'Its life.'),
  attempt: field(4, u32, 'Counted from 1.'),
  fence: field(5, u64, 'Grows with each attempt.'),
  outcome: field(6, enumOf(...outcomes), 'What became of it.'),
});

const endRecord = record('end', {
  completed: field(1, u53, 'Iterations or items that went well.'),
  failed: field(2, u53, 'Those that went wrong.'),
  tookMs: field(3, u53, 'How long it ran.'),
  summary: field(4, optional(bytes(inlineResultBytesMax)), 'If it is small.'),
  output: field(5, optional(bytes(inlineResultBytesMax)), 'If it is small.'),
  summaryBytes: field(6, u53, 'How large it is; it lies apart if it is not here.'),
  outputBytes: field(7, u53, 'How large it is; it lies apart if it is not here.'),
  failures: field(8, optional(bytes(inlineResultBytesMax)), 'If it is small.'),
  failuresBytes: field(9, optional(u53), 'How large it is, if there is one; it lies apart if it is not here.'),
});

const unitRecord = record('unit', {
  unit: field(1, u32, 'Its number.'),
  state: field(2, enumOf('waiting', 'given', 'done', 'failed', 'cancelled'), 'Where it stands.'),
  attempts: field(3, list(attemptRecord, attemptsKeptMax), 'In order.'),
  end: field(4, optional(endRecord), 'Of the attempt that won.'),
});

const workflowRecord = record('workflow', {
  status: field(1, enumOf(...workflowStatuses), 'Status.'),
  phase: field(2, enumOf('none', 'whole', 'plan', 'work', 'finish'), 'Which of its units are made.'),
  startedMs: field(3, optional(u53), 'Its first assignment, in the time of the managers.'),
  /** Of `work`, or one of `whole`; 0 before they are made. */
  units: field(4, u32, 'How many.'),
  items: field(5, optional(u53), 'As its plan said.'),
  code: field(6, optional(text(40)), 'Why it failed.'),
  why: field(7, optional(text(4_000)), 'The same for people.'),
  inline: field(
    8,
    list(unitRecord, jobLimits.unitsMax + 2),
    'Its units, unless they lie in blocks; plan and finish always.',
  ),
  found: field(9, optional(u32), 'The unit that found what was looked for.'),
  endedMs: field(10, optional(u53), 'Its end, in the time of the managers.'),
});

const incidentRecord = record('incident', {
  wallMs: field(1, u53, 'When.'),
  type: field(2, enumOf(...incidentTypes), 'What.'),
  node: field(3, text(255), 'Where.'),
  effect: field(4, text(500), 'What came of it.'),
});

const stateRecord = record('jobState', {
  status: field(1, enumOf(...jobStatuses), 'Status.'),
  startedWallMs: field(2, optional(u53), 'First assignment.'),
  endedWallMs: field(3, optional(u53), 'End.'),
  startedMs: field(4, optional(u53), 'First assignment, in the time of the managers.'),
  endedMs: field(5, optional(u53), 'End, in the time of the managers.'),
  code: field(6, optional(text(40)), 'Why it failed.'),
  why: field(7, optional(text(4_000)), 'The same for people.'),
  workflows: field(8, list(workflowRecord, jobLimits.workflowsMax), 'In the order of the request.'),
  incidents: field(9, list(incidentRecord, incidentsMax), 'In order.'),
});

const valueBytesMax = 1_048_576;
const declare = { carrier: 'stream', from: ['manager'], bytesMax: valueBytesMax } as const;

const job = message({
  ...{ kind: 'job', tag: 1, ...declare, doc: 'What never changes, and the first state.' },
  fields: {
    submitter: field(1, internedText(256), 'On whose behalf.'),
    submittedWallMs: field(2, u53, 'For people, and for start times.'),
    submittedMs: field(3, u53, 'In the time of the managers.'),
    seed: field(4, u53, 'Of its randomness.'),
    key: field(5, optional(text(64)), 'Hash of submitter and idempotency key.'),
    hash: field(6, optional(internedText(64)), 'Hash of the words, for those with a key.'),
    words: field(7, internedText(valueBytesMax), 'JSON of the request, as it came.'),
    state: field(8, stateRecord, 'The first state.'),
  },
});

const state = message({
  ...{ kind: 'state', tag: 2, ...declare, doc: 'The present state.' },
  fields: { state: field(1, stateRecord, 'All of it.') },
});

const block = message({
  ...{ kind: 'block', tag: 3, ...declare, doc: 'Some units.' },
  fields: { units: field(1, list(unitRecord, unitsPerBlock), 'In order.') },
});

const clock = message({
  ...{ kind: 'clock', tag: 4, ...declare, doc: 'Time of the managers.' },
  fields: { ms: field(1, u53, 'So much was counted.') },
});

const codec = createCodec([job, state, block, clock]);
type Any = MessageOf<readonly [typeof job, typeof state, typeof block, typeof clock]>;
export type JobRecord = Omit<Extract<Any, { readonly kind: 'job' }>, 'kind'>;
export type JobStateRecord = JobRecord['state'];
export type WorkflowRecord = JobStateRecord['workflows'][number];
export type UnitRecord = WorkflowRecord['inline'][number];
export type IncidentRecord = JobStateRecord['incidents'][number];

export function encodeJobRecord(value: JobRecord): Uint8Array {
  // Not spread: this is done for every job.
  const { submitter, submittedWallMs, submittedMs, seed, key, hash, words, state: first } = value;
  return codec.encode({
    kind: 'job',
    submitter,
    submittedWallMs,
    submittedMs,
    seed,
    key,
    hash,
    words,
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

function read<K extends Any['kind']>(value: Uint8Array, kind: K): Extract<Any, { readonly kind: K }> | undefined {
  try {
    const found = codec.decode(value);
    return found.kind === kind ? (found as Extract<Any, { readonly kind: K }>) : undefined;
  } catch {
    return undefined;
  }
}
