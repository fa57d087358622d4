/** Parses amounts such as '30s' and '512mb'. Returns undefined for anything else. */

const unitMs: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function parseDurationMs(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) && value >= 0 ? value : undefined;
  const [, amount, unit] = typeof value === 'string' ? (/^(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)$/.exec(value) ?? []) : [];
  const ms = unitMs[unit ?? ''];
  return amount === undefined || ms === undefined ? undefined : Number(amount) * ms;
}

export function parseMemoryMb(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? value : undefined;
  const [, amount, unit] = typeof value === 'string' ? (/^(\d+(?:\.\d+)?)\s*(mb|gb)$/i.exec(value) ?? []) : [];
  return amount === undefined ? undefined : Math.ceil(Number(amount) * (unit?.toLowerCase() === 'gb' ? 1_024 : 1));
}
