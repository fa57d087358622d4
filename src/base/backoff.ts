/**
 * Exponential backoff with equal jitter: the delay before the next attempt doubles up to `maxMs` and is drawn from its
 * upper half, so that nodes that lost the same peer do not redial in lockstep.
 */
export function dialBackoffMs(failures: number, minMs: number, maxMs: number, fraction: number): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
  return full * (0.5 + fraction / 2);
}
