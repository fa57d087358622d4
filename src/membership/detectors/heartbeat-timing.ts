/**
 * All times of the push detector and the pull monitor, derived from one interval so that their relations hold:
 *
 *   the timeout is 3 intervals, and 5 pings fit into it: three may be lost without a false death;
 *   a worker leaves its manager after three pings without an ack, that is after 4 of those 5 ping intervals, so it has
 *   found the next manager before the old one declares it dead;
 *   after a change of manager the grace is twice the timeout: once for the worker to notice that its manager is gone,
 *   once to reach the next one.
 */
import { assert } from '../../base/assert.ts';

export type HeartbeatTiming = {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** A fifth of the timeout. With a third of it, two lost pings and some jitter would be a death. */
  readonly pingIntervalMs: number;
  readonly graceMs: number;
  readonly missesMax: number;
};

export function heartbeatTiming(intervalMs: number): HeartbeatTiming {
  assert(intervalMs > 0, 'heartbeats need an interval');
  const timeoutMs = 3 * intervalMs;
  return { intervalMs, timeoutMs, pingIntervalMs: timeoutMs / 5, graceMs: 2 * timeoutMs, missesMax: 3 };
}
