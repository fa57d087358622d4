/**
 * Detects four leader changes within a minute and then delays elections a little. Ends by itself; never forbids an
 * election.
 */
import type { NodeId } from '../../base/ids.ts';

const windowMs = 60_000;
const changesMax = 4;
const levelMax = 3;

export class LeaderFlapping {
  #changesMs: number[] = [];
  #level = 0;
  #last: { readonly leader: NodeId; readonly term: number } | undefined;

  /** A leader is known. True if this change starts flapping. */
  onLeader(nowMs: number, leader: NodeId, term: number): boolean {
    this.#dropOld(nowMs);
    // The same leader, heard again after a silence, is not a change.
    if (this.#last?.leader === leader && this.#last.term === term) return false;
    this.#last = { leader, term };
    this.#changesMs.push(nowMs);
    if (this.#changesMs.length < changesMax) return false;
    // More are not needed to detect that flapping continues.
    this.#changesMs = this.#changesMs.slice(-changesMax);
    this.#level = Math.min(levelMax, this.#level + 1);
    return this.#level === 1;
  }

  isFlapping(nowMs: number): boolean {
    this.#dropOld(nowMs);
    return this.#level > 0;
  }

  /** In election timeouts: 0.5, 1, 2. */
  cooldownRatio(nowMs: number): number {
    return this.isFlapping(nowMs) ? 2 ** (this.#level - 2) : 0;
  }

  #dropOld(nowMs: number): void {
    this.#changesMs = this.#changesMs.filter((atMs) => nowMs - atMs < windowMs);
    if (this.#changesMs.length < changesMax - 1) this.#level = 0;
  }
}
