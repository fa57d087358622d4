/**
 * Turns the timeouts of a call into two moments: its deadline and the end of retries. Both are fixed when the call
 * starts.
 */
import { RemusterError } from '../base/errors.ts';
import type { CallOptions } from '../containers/module.ts';

export type CallTimeouts = {
  /** Timeout of a request to the cluster; also the minimum for a call without a timeout of its own. */
  readonly requestTimeoutMs: number;
  /** How long a call is resent while nodes are unreachable; 0: never, -1: without end. */
  readonly retryTimeoutMs: number;
};

export type CallDeadlines = { readonly deadlineMs: number; readonly retryUntilMs: number };

/** Without a timeout of its own a call may take as long as it is retried, and at least `requestTimeoutMs`. */
export function callDeadlines(nowMs: number, options: CallOptions, timeouts: CallTimeouts): CallDeadlines {
  const retryTimeoutMs = checked(options.retryTimeoutMs ?? timeouts.retryTimeoutMs, 'retryTimeoutMs', -1);
  const retryMs = retryTimeoutMs < 0 ? Infinity : retryTimeoutMs;
  const timeoutMs = checked(options.timeoutMs ?? Math.max(retryMs, timeouts.requestTimeoutMs), 'timeoutMs', 0);
  return { deadlineMs: nowMs + timeoutMs, retryUntilMs: nowMs + retryMs };
}

function checked(value: number, name: string, min: number): number {
  if (typeof value !== 'number' || !(value >= min))
    throw new RemusterError('BAD_ARGUMENT', `${name} must be a number of at least ${min}, not ${String(value)}`);
  return value;
}
