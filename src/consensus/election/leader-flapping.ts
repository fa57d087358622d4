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

  /** Somebody leads. True when this change is the one that makes it flapping. */
  onLeader(nowMs: number, leader: NodeId, term: number): boolean {
    this.#forget(nowMs);
    // The same leader, heard again after a silence, is no change.
    if (this.#last?.leader === leader && this.#last.term === term) return false;
    this.#last = { leader, term };
    this.#changesMs.push(nowMs);
    if (this.#changesMs.length < changesMax) return false;
    // More than that many are never needed to know that it goes on.
    this.#changesMs = this.#changesMs.slice(-changesMax);
    this.#level = Math.min(levelMax, this.#level + 1);
    return this.#level === 1;
  }

  isFlapping(nowMs: number): boolean {
    this.#forget(nowMs);
    return this.#level > 0;
  }

  /** In election timeouts: 0.5, 1, 2. */
  cooldownRatio(nowMs: number): number {
    return this.isFlapping(nowMs) ? 2 ** (this.#level - 2) : 0;
  }

  #forget(nowMs: number): void {
    this.#changesMs = this.#changesMs.filter((atMs) => nowMs - atMs < windowMs);
    if (this.#changesMs.length < changesMax - 1) this.#level = 0;
  }
}
