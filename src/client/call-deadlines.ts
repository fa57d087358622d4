/**
 * Turns the timeouts of a call into fixed moments: its deadline and the end of retries. Nothing moves them afterwards.
 */
import { RemusterError } from '../base/errors.ts';
import type { CallOptions } from '../containers/module.ts';

export type CallTimeouts = {
  /** How long one question to the cluster may take; also the least that a call has which names no time. */
  readonly requestTimeoutMs: number;
  /** How long a call is sent again when nodes cannot be reached; 0: once only, -1: for ever. */
  readonly retryTimeoutMs: number;
};

export type CallDeadlines = { readonly deadlineMs: number; readonly retryUntilMs: number };

/** Without a time of its own a call may take as long as it is sent again; for ever only if that is for ever. */
export function callDeadlines(nowMs: number, options: CallOptions, times: CallTimeouts): CallDeadlines {
  const retryMs = checked(options.retryTimeoutMs ?? times.retryTimeoutMs, 'retryTimeoutMs', -1);
  const patienceMs = retryMs < 0 ? Infinity : retryMs;
  const timeoutMs = checked(options.timeoutMs ?? Math.max(patienceMs, times.requestTimeoutMs), 'timeoutMs', 0);
  return { deadlineMs: nowMs + timeoutMs, retryUntilMs: nowMs + patienceMs };
}

function checked(value: number, what: string, min: number): number {
  if (typeof value !== 'number' || !(value >= min))
    throw new RemusterError('BAD_ARGUMENT', `${what} is a number from ${min} on`);
  return value;
}
