/** Formats numbers for people: counts, rates, latencies, durations, sizes. */

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function formatCount(value: number): string {
  return whole.format(value);
}

/** `1 item`, `2,000 items`. */
export function formatAmount(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

/** A rate below ten keeps one digit after the point. */
export function formatRate(perSecond: number): string {
  return `${perSecond < 10 ? trimmed(perSecond, 1) : formatCount(perSecond)}/s`;
}

/** At most three significant digits below one second. */
export function formatLatency(ms: number): string {
  if (!Number.isFinite(ms)) return '-';
  if (ms >= 10_000) return `${trimmed(ms / 1_000, 1)} s`;
  return `${trimmed(ms, ms < 1 ? 3 : ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
}

export function formatElapsed(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = `${Math.floor(seconds % 60)} s`;
  return minutes < 60 ? `${minutes} m ${rest}` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = 0;
  for (; value >= 1_000 && unit < units.length - 1; unit++) value /= 1_000;
  return `${trimmed(value, unit === 0 || value >= 100 ? 0 : 1)} ${units[unit] ?? ''}`;
}

export function formatPercent(ratio: number): string {
  return `${trimmed(ratio * 100, ratio > 0 && ratio < 0.1 ? 2 : 1)}%`;
}

function trimmed(value: number, digits: number): string {
  return value
    .toFixed(digits)
    .replace(/(\.\d*?)0+$/, '$1')
    .replace(/\.$/, '');
}
