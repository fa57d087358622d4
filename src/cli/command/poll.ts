/**
 * Polls until a condition holds or the timeout passes, and prints progress on stderr when it changes. A retryable
 * error, such as a leader change, is polled again.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isRemusterError } from '../../base/errors.ts';
import { parseDurationFlag } from './command-flags.ts';
import { stripControls, printNotice } from '../output/terminal.ts';

export type PollResult<T> = { readonly value: T; readonly isDone: boolean; readonly text: string };

const pollMsMin = 50;
const pollMsMax = 500;

/** Returns the last result, done or not. */
export async function pollUntil<T>(timeout: string, poll: () => Promise<PollResult<T>>): Promise<PollResult<T>> {
  const deadlineMs = Date.now() + parseDurationFlag('--timeout', timeout, 0);
  let printed = '';
  for (let waitMs = pollMsMin; ; waitMs = Math.min(pollMsMax, waitMs * 2)) {
    const result = await poll().catch((error: unknown) => {
      if (isRemusterError(error) && error.row.retryable && Date.now() < deadlineMs) return undefined;
      throw error;
    });
    if (result !== undefined) {
      if (result.text !== printed && !result.isDone) printNotice(stripControls(result.text));
      printed = result.text;
      if (result.isDone || Date.now() >= deadlineMs) return result;
    }
    await pause(waitMs);
  }
}
