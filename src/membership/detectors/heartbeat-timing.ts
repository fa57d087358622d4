/**
 * All times of the push detector and the pull monitor, derived from one interval so that their relations hold (timeout
 * = 3 intervals).
 *
 *   silence of 3 intervals is death, and 5 pings fit into that time: three may be lost without a false verdict;
 *   a worker whose 3 questions got no answer gives its manager up after 4 of those 5, and has found the next manager
 *   before the old one gives up the worker;
 *   after a change of manager there is grace for twice the timeout: once for the worker to notice that its manager is
 *   gone, once to reach the next one.
 */
import { assert } from '../../base/assert.ts';

export type HeartbeatTiming = {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** How often a worker pings. At a third of the timeout, two lost pings and some jitter would be a death. */
  readonly pingIntervalMs: number;
  readonly graceMs: number;
  readonly missesMax: number;
};

export function heartbeatTiming(intervalMs: number): HeartbeatTiming {
  assert(intervalMs > 0, 'heartbeats need an interval');
  const timeoutMs = 3 * intervalMs;
  return { intervalMs, timeoutMs, pingIntervalMs: timeoutMs / 5, graceMs: 2 * timeoutMs, missesMax: 3 };
}
