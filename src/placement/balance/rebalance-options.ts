/**
 * Presets and bounds of rebalancing: mode, strategy, moves per hour, cooldown, blacklist patterns without regular
 * expressions. Nothing moves by itself unless `mode` is `automatic`; the share of a worker that joins does unless it is
 * `off`. Its presets are those of seed 002: a careful one, and an eager one for containers that are cheap to move.
 */
import type { BalanceStrategy } from '../plans/load-score.ts';

export type RebalanceOptions = {
  /** `off` refuses everything, `manual` evens out only when asked to, `automatic` looks every `intervalMs`. */
  readonly mode: 'off' | 'manual' | 'automatic';
  readonly strategy: BalanceStrategy;
  /** Up to this coefficient of variation the load counts as balanced. */
  readonly variationMax: number;
  readonly intervalMs: number;
  readonly movesPerHourMax: number;
  /** A container stays at least this long where it came to, before it is moved by itself again. */
  readonly cooldownMs: number;
  /** Containers that never move to even out the load: `pool/container`, `*` stands for any characters. */
  readonly blacklist: readonly string[];
};

const presets = {
  conservative: { variationMax: 0.4, intervalMs: 600_000, movesPerHourMax: 5, cooldownMs: 120_000 },
  balanced: { variationMax: 0.3, intervalMs: 300_000, movesPerHourMax: 10, cooldownMs: 60_000 },
  aggressive: { variationMax: 0.2, intervalMs: 120_000, movesPerHourMax: 20, cooldownMs: 30_000 },
} as const;

export type RebalancePreset = keyof typeof presets;

export function rebalanceOptions(eagerness: RebalancePreset, others: Partial<RebalanceOptions> = {}): RebalanceOptions {
  return { mode: 'manual', strategy: 'balanced', blacklist: [], ...presets[eagerness], ...others };
}

export function isBlacklisted(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matches(pattern, name));
}

/** Without a regular expression, so that no pattern of a user can take long. */
function matches(pattern: string, name: string): boolean {
  const [head = '', ...rest] = pattern.split('*');
  const tail = rest.pop();
  if (tail === undefined) return name === pattern;
  if (!name.startsWith(head) || name.length < head.length + tail.length || !name.endsWith(tail)) return false;
  let at = head.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found === -1 || found + part.length > name.length - tail.length) return false;
    at = found + part.length;
  }
  return true;
}

const hourMs = 3_600_000;

/** How many automatic moves may start within an hour. Remembers no more of them than are allowed. */
export class HourlyMoveBudget {
  readonly #perHourMax: number;
  #begunMs: number[] = [];

  constructor(perHourMax: number) {
    this.#perHourMax = perHourMax;
  }

  /** From when on one may begin. */
  nextFreeMs(nowMs: number): number {
    this.#begunMs = this.#begunMs.filter((atMs) => nowMs - atMs < hourMs);
    if (this.#perHourMax === 0) return Infinity;
    return this.#begunMs.length < this.#perHourMax ? nowMs : (this.#begunMs[0] ?? nowMs) + hourMs;
  }

  /** One begins. */
  take(nowMs: number): void {
    this.#begunMs.push(nowMs);
  }
}
