/**
 * The Lifeguard local health score, 0 (healthy) to 8: how slow this node itself is. Multiplies its probe interval and
 * timeouts. It does not measure load.
 */
export const localHealthMax = 8;

export type HealthEvent =
  | 'probeSucceeded'
  | 'indirectNeeded'
  | 'nackMissed'
  | 'probeFailed'
  | 'accused'
  | 'lagged'
  | 'laggedBadly'
  | 'recovered';

const change: Readonly<Record<HealthEvent, number>> = {
  probeSucceeded: -1,
  indirectNeeded: 1,
  nackMissed: 1,
  probeFailed: 1,
  accused: 1,
  lagged: 1,
  laggedBadly: 2,
  recovered: -1,
};

export class LocalHealth {
  #score = 0;

  record(event: HealthEvent): void {
    this.#score = Math.min(localHealthMax, Math.max(0, this.#score + change[event]));
  }

  get score(): number {
    return this.#score;
  }

  get multiplier(): number {
    return 1 + this.#score;
  }
}
