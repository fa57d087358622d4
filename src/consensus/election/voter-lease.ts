/**
 * For how long this voter may vote for no other node after it heard the leader. A restart starts it again in full,
 * because nothing remembers what was promised; a released lease or a proven crash ends it.
 */
import type { NodeId } from '../../base/ids.ts';

/** The word of a leader that it counts on nothing after this round of this term. */
export type ReleasedLease = { readonly term: number; readonly round: number };

export class VoterLease {
  readonly #durationMs: number;
  #untilMs = -Infinity;
  #leader: { readonly id: NodeId; readonly generation: number; readonly term: number } | undefined;
  #round = 0;
  /** Known to be gone; what it said before still arrives for a while. */
  #dead: { readonly id: NodeId; readonly generation: number; readonly untilMs: number } | undefined;

  constructor(durationMs: number) {
    this.#durationMs = durationMs;
  }

  get untilMs(): number {
    return this.#untilMs;
  }

  onRestart(nowMs: number): void {
    this.#untilMs = nowMs + this.#durationMs;
    this.#leader = undefined;
  }

  renew(
    nowMs: number,
    leader: { readonly id: NodeId; readonly generation: number },
    term: number,
    round: number,
  ): void {
    if (this.#leader?.term !== term || this.#leader.id !== leader.id) this.#round = 0;
    this.#leader = { id: leader.id, generation: leader.generation, term };
    this.#round = Math.max(this.#round, round);
    this.#untilMs = nowMs + this.#durationMs;
  }

  isBound(nowMs: number, handedOver?: ReleasedLease): boolean {
    if (nowMs >= this.#untilMs) return false;
    if (handedOver === undefined || this.#leader === undefined) return true;
    return handedOver.term !== this.#leader.term || this.#round > handedOver.round;
  }

  /** That message is one of those that were under way when its sender was found to be gone. */
  isFromDeadProcess(nowMs: number, { id, generation }: { readonly id: NodeId; readonly generation: number }): boolean {
    const dead = this.#dead;
    return dead !== undefined && dead.id === id && generation <= dead.generation && nowMs < dead.untilMs;
  }

  /** True if that process was the one we are bound to. */
  onProcessGone(nowMs: number, id: NodeId, generation: number): boolean {
    if (this.#leader === undefined || this.#leader.id !== id || this.#leader.generation > generation) return false;
    this.#dead = { id, generation, untilMs: nowMs + this.#durationMs };
    this.#untilMs = -Infinity;
    this.#leader = undefined;
    return true;
  }
}
