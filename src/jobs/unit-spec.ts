/**
 * The encoded description of the work of one unit. Every attempt of a unit gets the same bytes.
 */
import { createCodec } from '../messages/codec/codec.ts';
import { field, map, optional, record } from '../messages/codec/compound.ts';
import { type MessageOf, message } from '../messages/codec/message.ts';
import { bool, enumOf, u16, u32, u53 } from '../messages/codec/numbers.ts';
import { text } from '../messages/codec/strings.ts';
import { jobLimits } from './limits.ts';

/**
 * A workflow that needs one core is one unit of phase `whole`: setup, work and teardown. Otherwise `plan` (setup, and
 * the list of items) comes first, then `work` on several cores, then `finish` (teardown).
 */
export const unitPhases = ['whole', 'plan', 'work', 'finish'] as const;
export type UnitPhase = (typeof unitPhases)[number];

/** Unit numbers of `plan` and `finish`; those of `work` and `whole` count from 0. */
export const planUnitNumber = 1_000_000;
export const finishUnitNumber = 1_000_001;

const share = record('share', {
  from: field(1, u53, 'First index, from 0.'),
  count: field(2, u53, 'Number of users or items.'),
  list: field(
    3,
    optional(text(jobLimits.resultBytesMax)),
    'The items: a JSON array. Without it the items are the indexes.',
  ),
});

const head = { kind: 'unitSpec', tag: 1, carrier: 'stream', from: ['manager'], bytesMax: 11_500_000 } as const;

/** Fields that a worker needs to choose a runner; it decodes no other field. */
const requirements = {
  job: field(1, text(64), 'Job id.'),
  workflow: field(2, u16, 'Number of the workflow in the job.'),
  unit: field(3, u32, 'Number of the unit in the workflow.'),
  bundle: field(6, text(64), 'SHA-256 of the bundle.'),
  network: field(15, bool, 'The code may use the network.'),
  memoryMb: field(16, u32, 'Memory limit of the code.'),
  timeoutMs: field(17, u53, 'The worker stops the unit after this time on a core.'),
  submitter: field(18, text(256), 'User on whose behalf the unit runs; submitters never share a runner.'),
};

const unitSpec = message({
  ...head,
  doc: 'Work of one unit.',
  fields: {
    ...requirements,
    units: field(4, u32, 'Number of units of phase `work`.'),
    phase: field(5, enumOf(...unitPhases), 'Phase of the workflow.'),
    facts: field(7, text(200_000), 'WorkflowFacts: JSON.'),
    env: field(8, map(text(256), text(jobLimits.envBytesMax), 1_000), 'Value of `ctx.env`.'),
    seed: field(9, u53, 'Seed of `ctx.random`; equal for each attempt.'),
    users: field(10, optional(share), 'Load test: the share of the virtual users.'),
    iterations: field(11, optional(u53), 'Load test: the share of the iterations.'),
    items: field(12, optional(share), 'Batch: the share of the items; without it the code defines them.'),
    data: field(13, optional(text(jobLimits.contextBytesMax)), 'Result of setup: JSON.'),
    context: field(14, text(jobLimits.contextBytesMax), 'Results of the workflows before this one, by name: JSON.'),
  },
});

const unitRequirements = message({ ...head, doc: 'The fields that a worker decodes.', fields: requirements });

const codec = createCodec([unitSpec]);
const requirementsCodec = createCodec([unitRequirements]);
type UnitSpecMessage = MessageOf<readonly [typeof unitSpec]>;
export type UnitSpec = Omit<UnitSpecMessage, 'kind'>;

export function encodeUnitSpec(spec: UnitSpec): Uint8Array {
  return encodeUnitSpecMessage({ kind: 'unitSpec', ...spec });
}

/** `encodeUnitSpec` without the copy, for the manager, which encodes thousands each second. */
export function encodeUnitSpecMessage(message: UnitSpecMessage): Uint8Array {
  return codec.encode(message);
}

/** Throws a decode error for an invalid spec. */
export function decodeUnitSpec(bytes: Uint8Array): UnitSpec {
  return codec.decode(bytes);
}

export type UnitRequirements = Omit<MessageOf<readonly [typeof unitRequirements]>, 'kind'>;

/** Skips the large fields. Throws a decode error for an invalid spec. */
export function decodeUnitRequirements(bytes: Uint8Array): UnitRequirements {
  return requirementsCodec.decode(bytes);
}

/** Output of a unit of phase `plan`, as JSON. */
export type PlanOutput = {
  readonly data?: unknown;
  /** Batch: the items; without `list` they are the numbers from 0 to `count - 1`. */
  readonly items?: { readonly count: number; readonly list?: readonly unknown[] };
};
