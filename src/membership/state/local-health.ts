/**
 * How far this node should trust itself, 0 (healthy) to 8. A node that is slow, starved or badly connected sees failures
 * everywhere; before it accuses others it gives them, and itself, more time: probe interval and timeout are multiplied
 * by (1 + score) (Lifeguard). The events are those of the seeds; the score says nothing about load or leadership.
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
