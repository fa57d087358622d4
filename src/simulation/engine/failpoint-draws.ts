/**
 * Decides when a failpoint fires: it is enabled for a quarter of the seeds, and fires in a quarter of its calls. Counts
 * coverage, so that a campaign reports failpoints that never fired.
 */
import { noFailpoints, type Failpoints, type FailpointName, failpointNames } from '../../base/failpoints.ts';
import type { Random } from '../../base/random.ts';

const enabledRatio = 0.25;
const fireRatio = 0.25;

export class FailpointDraws {
  readonly fired = new Map<FailpointName, number>();
  readonly #draws: Map<FailpointName, Random>;
  #isDisabled: boolean;

  constructor(random: Random, isDisabled = false) {
    this.#isDisabled = isDisabled;
    const enabled = failpointNames.filter((label) => random.fork(`awake/${label}`).chance(enabledRatio));
    this.#draws = new Map(enabled.map((label) => [label, random.fork(`draw/${label}`)]));
  }

  /** From now on no failpoint fires, as in production. */
  disable(): void {
    this.#isDisabled = true;
  }

  readonly failpoints: Failpoints = (label) => {
    if (this.#isDisabled || this.#draws.get(label)?.chance(fireRatio) !== true) return noFailpoints(label);
    this.fired.set(label, (this.fired.get(label) ?? 0) + 1);
    return true;
  };
}

/** Failpoints that fired over many seeds. */
export class FailpointCoverage {
  readonly #fired = new Map<FailpointName, number>(failpointNames.map((label) => [label, 0]));

  add(draws: FailpointDraws): void {
    for (const [label, count] of draws.fired) this.#fired.set(label, (this.#fired.get(label) ?? 0) + count);
  }

  report(): { readonly fired: Readonly<Record<string, number>>; readonly neverFired: readonly FailpointName[] } {
    return {
      fired: Object.fromEntries(this.#fired),
      neverFired: failpointNames.filter((label) => this.#fired.get(label) === 0),
    };
  }
}
