/**
 * Options and presets of rebalancing, the blacklist, and the hourly budget of automatic moves. Containers move without
 * a request only in the mode `automatic`; a new worker gets its share unless the mode is `off`.
 */
import type { BalanceStrategy } from '../plans/load-score.ts';

export type RebalanceOptions = {
  /** `off` refuses every rebalance, `manual` needs a request, `automatic` also plans one move per `intervalMs`. */
  readonly mode: 'off' | 'manual' | 'automatic';
  readonly strategy: BalanceStrategy;
  /** The load counts as balanced up to this coefficient of variation. */
  readonly variationMax: number;
  readonly intervalMs: number;
  readonly movesPerHourMax: number;
  /** The least time between the arrival of a container at a node and its next automatic move. */
  readonly cooldownMs: number;
  /** Containers that never move for balance: `pool/container`, where `*` stands for any characters. */
  readonly blacklist: readonly string[];
};

const presets = {
  conservative: { variationMax: 0.4, intervalMs: 600_000, movesPerHourMax: 5, cooldownMs: 120_000 },
  balanced: { variationMax: 0.3, intervalMs: 300_000, movesPerHourMax: 10, cooldownMs: 60_000 },
  aggressive: { variationMax: 0.2, intervalMs: 120_000, movesPerHourMax: 20, cooldownMs: 30_000 },
} as const;

export type RebalancePreset = keyof typeof presets;

export function rebalanceOptions(preset: RebalancePreset, others: Partial<RebalanceOptions> = {}): RebalanceOptions {
  return { mode: 'manual', strategy: 'balanced', blacklist: [], ...presets[preset], ...others };
}

export function isBlacklisted(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => matches(pattern, name));
}

/** Linear time for every pattern, which a regular expression built from user input is not. */
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

/** Limits the automatic moves of one hour. Remembers at most as many start times as are allowed. */
export class HourlyMoveBudget {
  readonly #perHourMax: number;
  #startedMs: number[] = [];

  constructor(perHourMax: number) {
    this.#perHourMax = perHourMax;
  }

  /** When the next move may start: `nowMs` or later. */
  nextFreeMs(nowMs: number): number {
    this.#startedMs = this.#startedMs.filter((atMs) => nowMs - atMs < hourMs);
    if (this.#perHourMax === 0) return Infinity;
    return this.#startedMs.length < this.#perHourMax ? nowMs : (this.#startedMs[0] ?? nowMs) + hourMs;
  }

  /** Counts a move that starts now. */
  take(nowMs: number): void {
    this.#startedMs.push(nowMs);
  }
}
