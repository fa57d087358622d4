/**
 * How long one suspect has to refute (Lifeguard). The time starts long and shrinks with each independent accuser;
 * enough observers of a closed port end it at once. Only a pause of this node, which could not receive a refutation,
 * extends it.
 *
 *   wait = max(min, max - (max - min) * log(C + 1) / log(K + 1))      C confirmations of K expected
 *   min  = alpha * max(1, log10(n)) * probeInterval,  max = beta * min
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
  /** At most `#expected` + 1, so 0 <= confirmations <= expected. */
  readonly #accusers = new Set<NodeId>();
  readonly #refusedTo = new Set<NodeId>();
  #sinceMs: number;

  constructor(nowMs: number, timing: SuspicionTiming, membersCount: number, probeIntervalMs: number) {
    this.#sinceMs = nowMs;
    this.#minMs = timing.alpha * Math.max(1, Math.log10(membersCount)) * probeIntervalMs;
    // The suspect and the first accuser cannot confirm.
    this.#expected = Math.max(0, Math.min(timing.confirmationsMax, membersCount - 2));
    this.#maxMs = this.#expected === 0 ? this.#minMs : this.#minMs * timing.beta;
    this.#refusalsNeeded = Math.max(1, Math.min(timing.refusalsNeeded, membersCount - 1));
  }

  /** False when this accusation changes nothing. */
  addAccuser(by: NodeId, refused: boolean): boolean {
    const isNew =
      (!this.#accusers.has(by) && this.confirmations < this.#expected) || (refused && !this.#refusedTo.has(by));
    if (this.#accusers.size <= this.#expected) this.#accusers.add(by);
    if (refused && this.#refusedTo.size < this.#refusalsNeeded) this.#refusedTo.add(by);
    return isNew;
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

  /** Enough members found the port closed. */
  get isPortClosed(): boolean {
    return this.#refusedTo.size >= this.#refusalsNeeded;
  }

  /** The suspect has had time enough to refute. */
  isMature(nowMs: number): boolean {
    return nowMs - this.#sinceMs >= this.#minMs / 2;
  }

  /** This node did not run for this long. */
  discountPause(pauseMs: number): void {
    this.#sinceMs += pauseMs;
  }
}
