/**
 * For how long this voter votes for no other node after it heard the leader. A restart starts the full time, because the
 * lease is not stored; a released lease or a proven crash of the leader ends it.
 */
import type { NodeId } from '../../base/ids.ts';

/** A leader stated that it uses no confirmation after this round of this term. */
export type ReleasedLease = { readonly term: number; readonly round: number };

export class VoterLease {
  readonly #durationMs: number;
  #untilMs = -Infinity;
  #leader: { readonly id: NodeId; readonly generation: number; readonly term: number } | undefined;
  #round = 0;
  /** The ended process of a leader, whose messages may still arrive for a while. */
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

  isBound(nowMs: number, released?: ReleasedLease): boolean {
    if (nowMs >= this.#untilMs) return false;
    if (released === undefined || this.#leader === undefined) return true;
    return released.term !== this.#leader.term || this.#round > released.round;
  }

  /** True for a message that was in flight when its sender ended. */
  isFromDeadProcess(nowMs: number, { id, generation }: { readonly id: NodeId; readonly generation: number }): boolean {
    const dead = this.#dead;
    return dead !== undefined && dead.id === id && generation <= dead.generation && nowMs < dead.untilMs;
  }

  /** True if this process held the lease. */
  onProcessGone(nowMs: number, id: NodeId, generation: number): boolean {
    if (this.#leader === undefined || this.#leader.id !== id || this.#leader.generation > generation) return false;
    this.#dead = { id, generation, untilMs: nowMs + this.#durationMs };
    this.#untilMs = -Infinity;
    this.#leader = undefined;
    return true;
  }
}
