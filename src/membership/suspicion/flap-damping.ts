/**
 * Decides when this node withdraws because it flaps, each time for twice as long. The node decides about itself,
 * because it receives every claim about itself and every member believes what it claims of itself. It withdraws when
 *
 *   it was declared dead twice within five minutes, or
 *   six accusations by at least four members arrived within a minute.
 *
 * Not when something else explains the accusations: the node was paused, or many other members are accused too (a
 * network problem). And not in a small group, which needs every member.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';

type Accusation = { readonly by: NodeId; readonly atMs: number };

const deathsWindowMs = 300_000;
const deathsMax = 2;
/** Death claims that are closer together are about the same death. */
const sameDeathMs = 10_000;

const accusationsWindowMs = 60_000;
const accusationsMax = 6;
const accusersMin = 4;

/** Accusations within this time after a pause are explained by the pause. */
const afterPauseMs = 30_000;
const groupMin = 8;
/** A larger share of accused members is a network problem. */
const accusedRatio = 1 / 8;
const othersAccusedMax = 4_096;

const withdrawMs = 90_000;
const withdrawMsMax = 720_000;
/** After so long without a withdrawal the next one is short again. */
const resetAfterMs = 1_800_000;

export class FlapDamping {
  readonly #othersAccused = new BoundedLru<NodeId, number>(othersAccusedMax);
  #accusations: Accusation[] = [];
  #deathsMs: number[] = [];
  #pausedMs = Number.NEGATIVE_INFINITY;
  #nextWithdrawMs = withdrawMs;
  #lastWithdrawnMs = Number.NEGATIVE_INFINITY;

  /** This node did not run for a while, which explains the accusations of this time. */
  onPause(nowMs: number): void {
    this.#pausedMs = nowMs;
    this.#accusations = [];
    this.#deathsMs = this.#deathsMs.filter((atMs) => nowMs - atMs > sameDeathMs);
  }

  /** Another member accused this member, or declared it dead. */
  onOtherAccused(id: NodeId, nowMs: number): void {
    this.#othersAccused.set(id, nowMs);
  }

  /** This node is called suspect or dead. Returns for how many ms to withdraw; undefined: refute the claim. */
  onAccused(by: NodeId, kind: 'suspect' | 'dead', nowMs: number, groupSize: number): number | undefined {
    if (nowMs - this.#pausedMs < afterPauseMs) return undefined;
    this.#accusations = this.#accusations.filter(({ atMs }) => nowMs - atMs < accusationsWindowMs);
    this.#accusations = [...this.#accusations, { by, atMs: nowMs }].slice(-accusationsMax);
    if (kind === 'dead') this.#recordDeath(nowMs);
    if (groupSize < groupMin || this.#isNetworkProblem(nowMs, groupSize)) return undefined;
    return this.#isFlapping ? this.#withdraw(nowMs) : undefined;
  }

  #recordDeath(nowMs: number): void {
    this.#deathsMs = this.#deathsMs.filter((atMs) => nowMs - atMs < deathsWindowMs).slice(-deathsMax);
    if (nowMs - (this.#deathsMs.at(-1) ?? Number.NEGATIVE_INFINITY) >= sameDeathMs) this.#deathsMs.push(nowMs);
  }

  get #isFlapping(): boolean {
    const accusers = new Set(this.#accusations.map(({ by }) => by)).size;
    const isAccused = this.#accusations.length >= accusationsMax && accusers >= accusersMin;
    return isAccused || this.#deathsMs.length >= deathsMax;
  }

  #isNetworkProblem(nowMs: number, groupSize: number): boolean {
    let count = 0;
    for (const [, atMs] of this.#othersAccused.entries()) if (nowMs - atMs < accusationsWindowMs) count += 1;
    return count > groupSize * accusedRatio;
  }

  #withdraw(nowMs: number): number {
    if (nowMs - this.#lastWithdrawnMs > resetAfterMs) this.#nextWithdrawMs = withdrawMs;
    const forMs = this.#nextWithdrawMs;
    this.#nextWithdrawMs = Math.min(withdrawMsMax, 2 * forMs);
    this.#lastWithdrawnMs = nowMs;
    // Counts the end of the withdrawal as one death: a further one soon after it withdraws the node again.
    this.#accusations = [];
    this.#deathsMs = [nowMs + forMs];
    return forMs;
  }
}
