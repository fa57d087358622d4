/**
 * Owns the messages between a worker and one runner process. Every event but `ready` names its run; the
 * worker validates each event and kills a runner that breaks the protocol.
 */
import { createCodec } from '../messages/codec/codec.ts';
import { field, optional } from '../messages/codec/compound.ts';
import { type MessageOf, message } from '../messages/codec/message.ts';
import { bool, enumOf, u32, u53, u64 } from '../messages/codec/numbers.ts';
import { bytes, text } from '../messages/codec/strings.ts';
import { jobLimits } from './limits.ts';

const messageBytesMax = 15_000_000;
const runId = field(1, u32, 'Number of the run in this runner, from 1.');
const summary = optional(bytes(jobLimits.summaryBytesMax));

function declare<const K extends string, F extends Parameters<typeof message>[0]['fields']>(
  kind: K,
  tag: number,
  fields: F,
) {
  return message({ kind, tag, carrier: 'stream', from: ['worker'], bytesMax: messageBytesMax, doc: kind, fields });
}

const runnerCommands = [
  declare('run', 1, {
    runId,
    spec: field(2, bytes(11_500_000), 'UnitSpec as the manager encoded it (jobs/unit-spec.ts).'),
    code: field(3, optional(bytes(jobLimits.bundleBytesMax)), 'The bundle, unless this runner has it.'),
    attempt: field(4, optional(u32), 'Attempt number, from 1.'),
    fence: field(5, optional(u64), 'Fence of the attempt, for `ctx.fence`.'),
  }),
  declare('stop', 2, { runId, reason: field(2, text(200), 'Reason, for `ctx.signal.reason`.') }),
] as const;

const runnerEvents = [
  declare('ready', 10, {
    prefetch: field(
      1,
      optional(u32),
      'How many further runs the runner queues while it is busy; it executes them in order.',
    ),
  }),
  declare('started', 11, { runId }),
  declare('progress', 12, {
    runId,
    completed: field(2, u53, 'Iterations or items that succeeded.'),
    failed: field(3, u53, 'Iterations or items that failed.'),
    summary: field(4, summary, 'Summary so far (jobs/report/summary.ts).'),
  }),
  declare('ended', 13, {
    runId,
    outcome: field(2, enumOf('completed', 'failed', 'cancelled'), 'Outcome of the run.'),
    completed: field(3, u53, 'Iterations or items that succeeded.'),
    failed: field(4, u53, 'Iterations or items that failed.'),
    summary: field(5, summary, 'Final summary (jobs/report/summary.ts).'),
    output: field(6, optional(bytes(jobLimits.resultBytesMax)), 'Output: JSON.'),
    code: field(7, optional(text(40)), 'Error code of a failure.'),
    message: field(8, optional(text(4_000)), 'Error message, with the lines of the author.'),
    found: field(9, optional(bool), 'In a batch with `first`: the unit found the result that ends the workflow.'),
    tainted: field(10, optional(bool), 'User code still runs after the end: the worker must not reuse this process.'),
    failures: field(11, optional(bytes(jobLimits.failuresBytesMax)), 'Failed items (jobs/report/item-failures.ts).'),
  }),
  declare('log', 14, {
    runId,
    level: field(2, enumOf('debug', 'info', 'warn', 'error'), 'Log level.'),
    text: field(3, text(4_000), 'Line of `ctx.log`.'),
  }),
] as const;

export type RunnerCommand = MessageOf<typeof runnerCommands>;
export type RunnerEvent = MessageOf<typeof runnerEvents>;

export const runnerCommandCodec = createCodec(runnerCommands);
export const runnerEventCodec = createCodec(runnerEvents);
