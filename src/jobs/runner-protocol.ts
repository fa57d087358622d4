/**
 * Owns the messages between a worker and one runner process. Every runner event names its run; the worker validates
 * each event and kills a runner that breaks the protocol.
 */
import { createCodec } from '../messages/codec/codec.ts';
import { field, optional } from '../messages/codec/compound.ts';
import { type MessageOf, message } from '../messages/codec/message.ts';
import { bool, enumOf, u32, u53, u64 } from '../messages/codec/numbers.ts';
import { bytes, text } from '../messages/codec/strings.ts';
import { jobLimits } from './limits.ts';

const wordBytesMax = 15_000_000;
const runId = field(1, u32, 'Which run.');
const summary = optional(bytes(jobLimits.summaryBytesMax));

function word<const K extends string, F extends Parameters<typeof message>[0]['fields']>(
  kind: K,
  tag: number,
  fields: F,
) {
  return message({ kind, tag, carrier: 'stream', from: ['worker'], bytesMax: wordBytesMax, doc: kind, fields });
}

const toRunner = [
  word('run', 1, {
    run: runId,
    spec: field(2, bytes(11_500_000), 'UnitOrder, as the manager encoded it.'),
    code: field(3, optional(bytes(jobLimits.bundleBytesMax)), 'The bundle, unless this runner has it already.'),
    attempt: field(4, optional(u32), 'For the how-manyth time, counted from 1.'),
    fence: field(5, optional(u64), 'Of this attempt, for `ctx.fence`.'),
  }),
  word('stop', 2, { run: runId, why: field(2, text(200), 'For `ctx.signal.reason`.') }),
] as const;

const fromRunner = [
  word('ready', 10, {
    prefetch: field(1, optional(u32), 'It may be given so many further runs while it is busy, and does them in order.'),
  }),
  word('started', 11, { run: runId }),
  word('progress', 12, {
    run: runId,
    completed: field(2, u53, 'Iterations or items that went well.'),
    failed: field(3, u53, 'Those that went wrong.'),
    summary: field(4, summary, 'So far (jobs/report/summary.ts).'),
  }),
  word('ended', 13, {
    run: runId,
    what: field(2, enumOf('completed', 'failed', 'cancelled'), 'How.'),
    completed: field(3, u53, 'Iterations or items that went well.'),
    failed: field(4, u53, 'Those that went wrong.'),
    summary: field(5, summary, 'All of it.'),
    output: field(6, optional(bytes(jobLimits.resultBytesMax)), 'JSON.'),
    code: field(7, optional(text(40)), 'Why it failed.'),
    why: field(8, optional(text(4_000)), 'The same for people, with the lines of the author.'),
    found: field(9, optional(bool), 'Batch: the first success.'),
    tainted: field(
      10,
      optional(bool),
      'Its code still runs, although it is over: this process is not to be used again.',
    ),
    failures: field(11, optional(bytes(jobLimits.failuresBytesMax)), 'Failed items (jobs/report/item-failures.ts).'),
  }),
  word('said', 14, {
    run: runId,
    level: field(2, enumOf('debug', 'info', 'warn', 'error'), 'Level.'),
    text: field(3, text(4_000), 'A line of `ctx.log`.'),
  }),
] as const;

export type RunnerCommand = MessageOf<typeof toRunner>;
export type RunnerEvent = MessageOf<typeof fromRunner>;

export const runnerCommandCodec = createCodec(toRunner);
export const runnerEventCodec = createCodec(fromRunner);
