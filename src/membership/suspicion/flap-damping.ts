/**
 * A member that is declared dead or suspected again and again withdraws itself, each time twice as long. Not after a
 * pause, in small groups or in a network problem.
 *
 * The member itself hears everything that is said about it, and what it says of itself is believed everywhere: so it
 * takes itself out for a while, each time for twice as long, when within a short time
 *
 *   it was buried twice, or
 *   it was accused six times, by at least four different members.
 *
 * Not when there is a better explanation. It slept: whoever is slow is no less honest, and returns at once. Others are
 * accused as well: then it is the network. And a small group needs each member more than quiet.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';

type Accusation = { readonly by: NodeId; readonly atMs: number };

const deathsWindowMs = 300_000;
const deathsMax = 2;
/** Obituaries that come closer together are of the same death. */
const sameDeathMs = 10_000;

const accusationsWindowMs = 60_000;
const accusationsMax = 6;
const accusersMin = 4;

const sleepExplainsMs = 30_000;
const groupMin = 8;
const fewRatio = 1 / 8;
const troubledMax = 4_096;

const withdrawMs = 90_000;
const outMsMax = 720_000;
/** Who was quiet for so long begins anew. */
const resetAfterMs = 1_800_000;

export class FlapDamping {
  readonly #troubled = new BoundedLru<NodeId, number>(troubledMax);
  #accusations: Accusation[] = [];
  #deathsMs: number[] = [];
  #sleptMs = Number.NEGATIVE_INFINITY;
  #outMs = withdrawMs;
  #lastOutMs = Number.NEGATIVE_INFINITY;

  /** We did not run for a while: what is said about us just now has its reason. */
  onPause(nowMs: number): void {
    this.#sleptMs = nowMs;
    this.#accusations = [];
    this.#deathsMs = this.#deathsMs.filter((atMs) => nowMs - atMs > sameDeathMs);
  }

  /** Somebody else accused, or buried, this other member. */
  onOtherAccused(id: NodeId, nowMs: number): void {
    this.#troubled.set(id, nowMs);
  }

  /** We are called suspect or dead, and could refute it. For how long to stay out instead; undefined: refute it. */
  onAccused(by: NodeId, kind: 'suspect' | 'dead', nowMs: number, groupSize: number): number | undefined {
    if (nowMs - this.#sleptMs < sleepExplainsMs) return undefined;
    this.#accusations = this.#accusations.filter(({ atMs }) => nowMs - atMs < accusationsWindowMs);
    this.#accusations = [...this.#accusations, { by, atMs: nowMs }].slice(-accusationsMax);
    if (kind === 'dead') this.#died(nowMs);
    if (groupSize < groupMin || this.#isNetworkProblem(nowMs, groupSize)) return undefined;
    return this.#isFlapping ? this.#goOut(nowMs) : undefined;
  }

  #died(nowMs: number): void {
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
    for (const [, atMs] of this.#troubled.entries()) if (nowMs - atMs < accusationsWindowMs) count += 1;
    return count > groupSize * fewRatio;
  }

  #goOut(nowMs: number): number {
    if (nowMs - this.#lastOutMs > resetAfterMs) this.#outMs = withdrawMs;
    const forMs = this.#outMs;
    this.#outMs = Math.min(outMsMax, 2 * forMs);
    this.#lastOutMs = nowMs;
    // The absence is the price. One more death soon after it is one too many.
    this.#accusations = [];
    this.#deathsMs = [nowMs + forMs];
    return forMs;
  }
}
