/**
 * How long one suspect has to refute (Lifeguard): starts long, shrinks with each independent accuser. Only a pause of
 * this node extends it.
 *
 * Alone, an accuser waits the long time; each further accuser who found the same by itself shortens the wait, towards
 * the short time, and nothing ever extends it:
 *
 *   wait = max(min, max - (max - min) * log(C + 1) / log(K + 1))      C confirmations of K expected
 *   min  = alpha * max(1, log10(n)) * probeInterval,  max = beta * min
 *
 * Evidence of a closed port by enough independent observers ends the wait at once. The exception to "never extends" is
 * our own pause: time in which we could not have heard a refutation does not count against the accused.
 */
import type { NodeId } from '../../base/ids.ts';

export type SuspicionTiming = {
  readonly alpha: number;
  readonly beta: number;
  readonly confirmationsMax: number;
  readonly refusalsNeeded: number;
};

export class SuspicionTimer {
  readonly #minMs: number;
  readonly #maxMs: number;
  readonly #expected: number;
  readonly #refusalsNeeded: number;
  readonly #accusers = new Set<NodeId>();
  readonly #refusedTo = new Set<NodeId>();
  #sinceMs: number;

  constructor(nowMs: number, timing: SuspicionTiming, membersCount: number, probeIntervalMs: number) {
    this.#sinceMs = nowMs;
    this.#minMs = timing.alpha * Math.max(1, Math.log10(membersCount)) * probeIntervalMs;
    // Besides the accused and the first accuser there must be others who could confirm.
    this.#expected = Math.max(0, Math.min(timing.confirmationsMax, membersCount - 2));
    this.#maxMs = this.#expected === 0 ? this.#minMs : this.#minMs * timing.beta;
    this.#refusalsNeeded = Math.max(1, Math.min(timing.refusalsNeeded, membersCount - 1));
  }

  /** False when this accuser said nothing new. */
  addAccuser(by: NodeId, refused: boolean): boolean {
    const news =
      (!this.#accusers.has(by) && this.confirmations < this.#expected) || (refused && !this.#refusedTo.has(by));
    if (this.#accusers.size <= this.#expected) this.#accusers.add(by);
    if (refused && this.#refusedTo.size < this.#refusalsNeeded) this.#refusedTo.add(by);
    return news;
  }

  get confirmations(): number {
    return Math.max(0, this.#accusers.size - 1);
  }

  get accusers(): readonly NodeId[] {
    return [...this.#accusers];
  }

  get refusals(): readonly NodeId[] {
    return [...this.#refusedTo];
  }

  get deadlineMs(): number {
    if (this.isPortClosed) return this.#sinceMs;
    if (this.#expected === 0) return this.#sinceMs + this.#minMs;
    const share = Math.log(this.confirmations + 1) / Math.log(this.#expected + 1);
    return this.#sinceMs + Math.max(this.#minMs, this.#maxMs - (this.#maxMs - this.#minMs) * share);
  }

  /** Enough were told that the port is closed. */
  get isPortClosed(): boolean {
    return this.#refusedTo.size >= this.#refusalsNeeded;
  }

  /** It has lasted so long that the accused could have cleared itself. */
  isMature(nowMs: number): boolean {
    return nowMs - this.#sinceMs >= this.#minMs / 2;
  }

  /** We were not listening for this long. */
  discountPause(pauseMs: number): void {
    this.#sinceMs += pauseMs;
  }
}
