/**
 * How long to wait before the next attempt: doubled each time up to a bound, and spread over the upper half, so that
 * nodes which lost the same peer do not come back in step.
 */
export function dialBackoffMs(failures: number, minMs: number, maxMs: number, fraction: number): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
  return full * (0.5 + fraction / 2);
}
