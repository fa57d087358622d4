/**
 * Computes users and arrival times over load stages. They are divided among units so that the shares of all units add
 * up. Depends on elapsed time only. Pure.
 */
import type { LoadFacts, LoadStage } from '../../jobs/workflow-facts.ts';

export type UnitPosition = { readonly unit: number; readonly units: number };

/** The target for all units together; zero before the first stage. */
export function targetUsersAt(stages: readonly LoadStage[], elapsedMs: number): number {
  let from = 0;
  let startMs = 0;
  for (const { durationMs, target } of stages) {
    const endMs = startMs + durationMs;
    if (elapsedMs < endMs) return from + ((target - from) * (elapsedMs - startMs)) / durationMs;
    from = target;
    startMs = endMs;
  }
  return from;
}

/**
 * The share of this unit of `target` users, in proportion to its share of all users. Each unit rounds at another point,
 * so that all shares add up to the target.
 */
export function unitShareOfUsers(target: number, all: number, own: number, { unit, units }: UnitPosition): number {
  return Math.min(own, Math.floor((target * own) / all + (unit + 0.5) / units));
}

/** A linear change of the rate, in arrivals per millisecond, after `before` earlier arrivals. */
type Slope = {
  readonly startMs: number;
  readonly durationMs: number;
  readonly from: number;
  readonly to: number;
  readonly before: number;
};

/** The due times of the arrivals of this unit, in order, in milliseconds from the start. */
export class ArrivalSchedule {
  readonly #slopes: readonly Slope[];
  readonly #units: number;
  #slope = 0;
  #next: number;

  constructor(load: Pick<LoadFacts, 'ratePerSecond' | 'stages' | 'durationMs'>, part: UnitPosition) {
    this.#slopes = slopesOf(load);
    this.#units = part.units;
    this.#next = part.unit;
  }

  /** Infinity after the last arrival. */
  nextMs(): number {
    const number = this.#next;
    this.#next += this.#units;
    for (; this.#slope < this.#slopes.length; this.#slope++) {
      const slope = this.#slopes[this.#slope] as Slope;
      if (number < slope.before + arrivalsOf(slope)) return slope.startMs + timeOf(slope, number - slope.before);
    }
    return Infinity;
  }
}

function slopesOf({ ratePerSecond = 0, stages, durationMs = Infinity }: Partial<LoadFacts>): readonly Slope[] {
  const rate = ratePerSecond / 1_000;
  if (stages === undefined) return [{ startMs: 0, durationMs, from: rate, to: rate, before: 0 }];
  const slopes: Slope[] = [];
  let [from, startMs, before] = [rate, 0, 0];
  for (const stage of stages) {
    const to = stage.target / 1_000;
    const slope = { startMs, durationMs: stage.durationMs, from, to, before };
    slopes.push(slope);
    before += arrivalsOf(slope);
    startMs += stage.durationMs;
    from = to;
  }
  return slopes;
}

function arrivalsOf({ from, to, durationMs }: Slope): number {
  return durationMs === 0 ? 0 : ((from + to) / 2) * durationMs;
}

/** Solves `from x + (to - from) / (2 duration) x^2 = count`, in the form that keeps its precision. */
function timeOf({ from, to, durationMs }: Slope, count: number): number {
  if (count === 0) return 0;
  const growth = Number.isFinite(durationMs) ? (to - from) / (2 * durationMs) : 0;
  return (2 * count) / (from + Math.sqrt(Math.max(0, from * from + 4 * growth * count)));
}
