/** Polls until a condition holds and reports progress on stderr when it changes. Retryable errors are polled again. */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { stripControls, printNotice } from '../output/terminal.ts';

export type PollResult<T> = { readonly value: T; readonly isDone: boolean; readonly text: string };

const lookMsMin = 50;
const lookMsMax = 500;

/** The last that was seen, over or not. What passes, such as a change of leader, is waited for. */
export async function pollUntil<T>(timeout: string, look: () => Promise<PollResult<T>>): Promise<PollResult<T>> {
  const deadlineMs = Date.now() + durationOf(timeout);
  let told = '';
  for (let waitMs = lookMsMin; ; waitMs = Math.min(lookMsMax, waitMs * 2)) {
    const seen = await look().catch((error: unknown) => {
      if (isRemusterError(error) && error.row.retryable && Date.now() < deadlineMs) return undefined;
      throw error;
    });
    if (seen !== undefined) {
      if (seen.text !== told && !seen.isDone) printNotice(stripControls(seen.text));
      told = seen.text;
      if (seen.isDone || Date.now() >= deadlineMs) return seen;
    }
    await pause(waitMs);
  }
}

function durationOf(text: string): number {
  const ms = parseOptionDuration(text);
  if (ms === undefined) throw new RemusterError('BAD_ARGUMENT', '--timeout takes a duration such as 30s');
  return ms;
}
