/**
 * Decides when a named rare() point fires: enabled for a quarter of the seeds, then in a quarter of the calls. Counts
 * coverage, so that a campaign reports points that were never asked for or never fired.
 */
import { noFailpoints, type Failpoints, type FailpointName, failpointNames } from '../../base/failpoints.ts';
import type { Random } from '../../base/random.ts';

const enabledRatio = 0.25;
const fireRatio = 0.25;

export class RareDraws {
  readonly fired = new Map<FailpointName, number>();
  readonly #draws: Map<FailpointName, Random>;
  #asleep: boolean;

  constructor(random: Random, asleep = false) {
    this.#asleep = asleep;
    const awake = failpointNames.filter((label) => random.fork(`awake/${label}`).chance(enabledRatio));
    this.#draws = new Map(awake.map((label) => [label, random.fork(`draw/${label}`)]));
  }

  /** From now on the answers are those of real life. */
  disable(): void {
    this.#asleep = true;
  }

  readonly rare: Failpoints = (label) => {
    if (this.#asleep || this.#draws.get(label)?.chance(fireRatio) !== true) return noFailpoints(label);
    this.fired.set(label, (this.fired.get(label) ?? 0) + 1);
    return true;
  };
}

/** What fired over many seeds. */
export class RareCoverage {
  readonly #fired = new Map<FailpointName, number>(failpointNames.map((label) => [label, 0]));

  add(draws: RareDraws): void {
    for (const [label, count] of draws.fired) this.#fired.set(label, (this.#fired.get(label) ?? 0) + count);
  }

  report(): { readonly fired: Readonly<Record<string, number>>; readonly neverFired: readonly FailpointName[] } {
    return {
      fired: Object.fromEntries(this.#fired),
      neverFired: failpointNames.filter((label) => this.#fired.get(label) === 0),
    };
  }
}
