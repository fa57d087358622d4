/**
 * Round-trip estimate per peer (Jacobson). The probe timeout is the mean plus four deviations, doubled for the work of
 * the peer, between a floor and a ceiling; an unknown peer gets the ceiling. So a slow link never looks like a death.
 */
export class RttEstimator {
  #meanMs: number | undefined;
  #deviationMs = 0;

  observe(measuredMs: number): void {
    if (this.#meanMs === undefined) {
      this.#meanMs = measuredMs;
      this.#deviationMs = measuredMs / 2;
      return;
    }
    this.#deviationMs += (Math.abs(measuredMs - this.#meanMs) - this.#deviationMs) / 4;
    this.#meanMs += (measuredMs - this.#meanMs) / 8;
  }

  get meanMs(): number | undefined {
    return this.#meanMs;
  }

  timeoutMs(floorMs: number, ceilingMs: number): number {
    if (this.#meanMs === undefined) return ceilingMs;
    return Math.min(ceilingMs, Math.max(floorMs, 2 * (this.#meanMs + 4 * this.#deviationMs)));
  }
}
