/**
 * Computes users and arrival times over load stages, split over units so that the shares of all units add up. Depends
 * on elapsed time only.
 */
import type { LoadFacts, LoadStage } from '../../jobs/workflow-facts.ts';

export type UnitPosition = { readonly unit: number; readonly units: number };

/** Users of all units together. Before the first stage there is none. */
export function targetUsersAt(stages: readonly LoadStage[], elapsedMs: number): number {
  let from = 0;
  let beganMs = 0;
  for (const { durationMs, target } of stages) {
    const endMs = beganMs + durationMs;
    if (elapsedMs < endMs) return from + ((target - from) * (elapsedMs - beganMs)) / durationMs;
    from = target;
    beganMs = endMs;
  }
  return from;
}

/**
 * Of so many users those that belong to this unit, in proportion to those that it has of all. Each unit rounds at a
 * point of its own, so that all together come to the target.
 */
export function unitShareOfUsers(target: number, all: number, own: number, { unit, units }: UnitPosition): number {
  return Math.min(own, Math.floor((target * own) / all + (unit + 0.5) / units));
}

/** The rate goes from one to the other, per millisecond; `before` arrivals came earlier. */
type Slope = {
  readonly beganMs: number;
  readonly lastsMs: number;
  readonly from: number;
  readonly to: number;
  readonly before: number;
};

/** When the arrivals of this unit are due, one after the other, in milliseconds from the beginning. */
export class ArrivalSchedule {
  readonly #slopes: readonly Slope[];
  readonly #units: number;
  #at = 0;
  #next: number;

  constructor(load: Pick<LoadFacts, 'ratePerSecond' | 'stages' | 'durationMs'>, part: UnitPosition) {
    this.#slopes = slopesOf(load);
    this.#units = part.units;
    this.#next = part.unit;
  }

  /** Infinity when there is none left. */
  nextMs(): number {
    const number = this.#next;
    this.#next += this.#units;
    for (; this.#at < this.#slopes.length; this.#at++) {
      const slope = this.#slopes[this.#at] as Slope;
      if (number < slope.before + arrivalsOf(slope)) return slope.beganMs + momentOf(slope, number - slope.before);
    }
    return Infinity;
  }
}

function slopesOf({ ratePerSecond = 0, stages, durationMs = Infinity }: Partial<LoadFacts>): readonly Slope[] {
  const rate = ratePerSecond / 1_000;
  if (stages === undefined) return [{ beganMs: 0, lastsMs: durationMs, from: rate, to: rate, before: 0 }];
  const slopes: Slope[] = [];
  let [from, beganMs, before] = [rate, 0, 0];
  for (const stage of stages) {
    const to = stage.target / 1_000;
    const slope = { beganMs, lastsMs: stage.durationMs, from, to, before };
    slopes.push(slope);
    before += arrivalsOf(slope);
    beganMs += stage.durationMs;
    from = to;
  }
  return slopes;
}

function arrivalsOf({ from, to, lastsMs }: Slope): number {
  return lastsMs === 0 ? 0 : ((from + to) / 2) * lastsMs;
}

/** Solves `from x + (to - from) / (2 lasts) x^2 = count`, in the form that does not lose digits. */
function momentOf({ from, to, lastsMs }: Slope, count: number): number {
  if (count === 0) return 0;
  const growth = Number.isFinite(lastsMs) ? (to - from) / (2 * lastsMs) : 0;
  return (2 * count) / (from + Math.sqrt(Math.max(0, from * from + 4 * growth * count)));
}
