/**
 * Owns the encoded work description of one unit. Every attempt of a unit receives the same bytes. Never decides who
 * runs it.
 */
import { createCodec } from '../messages/codec/codec.ts';
import { field, map, optional, record } from '../messages/codec/compound.ts';
import { type MessageOf, message } from '../messages/codec/message.ts';
import { bool, enumOf, u16, u32, u53 } from '../messages/codec/numbers.ts';
import { internedText } from '../messages/codec/interned-text.ts';
import { text } from '../messages/codec/strings.ts';
import { jobLimits } from './limits.ts';

/**
 * `whole`: setup, all of the work and teardown, for what needs one core only. Otherwise `plan` (setup, and which items
 * there are), then `work` on several cores, then `finish` (teardown).
 */
export const unitPhases = ['whole', 'plan', 'work', 'finish'] as const;
export type UnitPhase = (typeof unitPhases)[number];

/** Numbers of units: those of `work` (and `whole`) count from 0. */
export const planUnitNumber = 1_000_000;
export const finishUnitNumber = 1_000_001;

const share = record('share', {
  from: field(1, u53, 'The first one, counted from 0.'),
  count: field(2, u53, 'How many.'),
  list: field(
    3,
    optional(text(jobLimits.resultBytesMax)),
    'The items themselves, a JSON array; else they are numbers.',
  ),
});

const head = { kind: 'unitOrder', tag: 1, carrier: 'stream', from: ['manager'], bytesMax: 11_500_000 } as const;

/** What a worker has to know to choose a runner, as a part of the whole: it need not read the rest. */
const needs = {
  job: field(1, text(64), 'The job.'),
  workflow: field(2, u16, 'Which of its workflows.'),
  unit: field(3, u32, 'Which unit of that.'),
  bundle: field(6, internedText(64), 'SHA-256 of the code.'),
  network: field(15, bool, 'The code may use the network.'),
  memoryMb: field(16, u32, 'It may use so much memory.'),
  timeoutMs: field(17, u53, 'A worker ends it after so long.'),
  submitter: field(18, internedText(256), 'On whose behalf; runners are never shared between submitters.'),
};

const unitOrder = message({
  ...head,
  doc: 'What a runner has to do.',
  fields: {
    ...needs,
    units: field(4, u32, 'How many units of `work` there are.'),
    phase: field(5, enumOf(...unitPhases), 'Which part of the work.'),
    facts: field(7, internedText(200_000), 'JSON of WorkflowFacts.'),
    env: field(8, map(text(256), text(jobLimits.envBytesMax), 1_000), 'For `ctx.env`.'),
    seed: field(9, u53, 'Of this unit, for `ctx.random`; the same with each attempt.'),
    users: field(10, optional(share), 'Load: its share of the users (`vus`).'),
    iterations: field(11, optional(u53), 'Load: its share of the iterations.'),
    items: field(12, optional(share), 'Batch: its share of the items; without it the code says which there are.'),
    data: field(13, optional(text(jobLimits.contextBytesMax)), 'JSON of what setup gave.'),
    context: field(14, text(jobLimits.contextBytesMax), 'JSON: by name of the workflows before it, what they gave.'),
  },
});

const unitNeeds = message({ ...head, doc: 'The part of it that a worker reads.', fields: needs });

const codec = createCodec([unitOrder]);
const needsCodec = createCodec([unitNeeds]);
type OrderMessage = MessageOf<readonly [typeof unitOrder]>;
export type UnitSpec = Omit<OrderMessage, 'kind'>;

export function encodeUnitSpec(order: UnitSpec): Uint8Array {
  return encodeUnitSpecMessage({ kind: 'unitOrder', ...order });
}

/** The same for who makes thousands each second, and need not copy each. */
export function encodeUnitSpecMessage(order: OrderMessage): Uint8Array {
  return codec.encode(order);
}

/** Throws a rejection for what is no order. */
export function decodeUnitSpec(bytes: Uint8Array): UnitSpec {
  return codec.decode(bytes);
}

export type UnitRequirements = Omit<MessageOf<readonly [typeof unitNeeds]>, 'kind'>;

/** Only what a worker has to know; passes over what may be large. Throws a rejection for what is no order. */
export function decodeUnitRequirements(bytes: Uint8Array): UnitRequirements {
  return needsCodec.decode(bytes);
}

/** What `plan` gives, as JSON in `output`. */
export type PlanOutput = {
  readonly data?: unknown;
  /** Batch: how many items there are, and which, unless they are the numbers from 0 on. */
  readonly items?: { readonly count: number; readonly list?: readonly unknown[] };
};
