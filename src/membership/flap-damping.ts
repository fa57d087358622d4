/**
 * Damping of members that come and go without dying, as routers damp flapping routes. A member whose links are bad in
 * one direction can refute every accusation and return from every death, and each time all others have to move. So each
 * member has a penalty, which halves with time and starts anew with a new life:
 *
 *   +1  it refuted an accusation, and its accuser was in good standing
 *   +1  it accused somebody in good standing, who refuted it: perhaps it is the accuser that does not hear
 *   +4  it returned from the dead
 *
 * From `flappingFrom` on, whoever finds it silent once more, and has helpers that found the same, buries it at once. A
 * dead member with `holdFrom` or more is held: its return is not believed for a while, each time for twice as long.
 *
 * Nobody must stay out for long because of this. Damping is for the few: when more than one member in eight has a
 * penalty it is the network, and nobody is held. A small group is never damped, because it needs each member more than
 * quiet. And who holds a member that others keep believing in gives way after a few contradictions.
 */
import { BoundedLru } from '../base/bounded-lru.ts';
import type { NodeId } from '../base/ids.ts';

type Life = { readonly id: NodeId; readonly generation: number };
type Penalty = {
  readonly generation: number;
  points: number;
  atMs: number;
  heldUntilMs: number;
  holds: number;
  contradictions: number;
};

const halfLifeMs = 90_000;
const refutedPoints = 1;
const returnedPoints = 4;
const pointsMax = 8;
const flappingFrom = 5;
/** Lower than the other limit: who counted a little less than the one who buried it holds it as well. */
const holdFrom = 2;
const holdMs = 45_000;
const holdMaxMs = 180_000;
const contradictionsMax = 3;

const groupMin = 8;
const fewRatio = 1 / 8;

export class FlapDamping {
  readonly #penalties: BoundedLru<NodeId, Penalty>;

  constructor(membersMax: number) {
    this.#penalties = new BoundedLru(membersMax);
  }

  /** One of the two has bad links. If one is known for it, the other is not blamed. */
  refuted(accused: Life, accuser: Life, nowMs: number): void {
    const accusedIsGood = this.#points(accused, nowMs) < holdFrom;
    if (this.#points(accuser, nowMs) < holdFrom) this.#add(accused, refutedPoints, nowMs);
    if (accusedIsGood) this.#add(accuser, refutedPoints, nowMs);
  }

  returned(life: Life, nowMs: number): void {
    this.#add(life, returnedPoints, nowMs);
  }

  isFlapping(life: Life, nowMs: number, groupSize: number): boolean {
    return this.#points(life, nowMs) >= flappingFrom && this.#isForFew(nowMs, groupSize);
  }

  /** It is dead, or just declared so: is its return not to be believed yet? */
  isHeld(life: Life, nowMs: number, groupSize: number): boolean {
    const penalty = this.#penalties.peek(life.id);
    if (penalty?.generation !== life.generation) return false;
    if (nowMs < penalty.heldUntilMs) return true;
    if (this.#points(life, nowMs) < holdFrom || !this.#isForFew(nowMs, groupSize)) return false;
    penalty.heldUntilMs = nowMs + Math.min(holdMaxMs, holdMs * 2 ** penalty.holds);
    penalty.holds += 1;
    penalty.contradictions = 0;
    // The hold is the price; what comes afterwards counts anew.
    penalty.points = 0;
    return true;
  }

  /** Others believe in the return of one that we hold. True when it is time to give way. */
  contradicted({ id }: Life): boolean {
    const penalty = this.#penalties.peek(id);
    if (penalty === undefined) return true;
    penalty.contradictions += 1;
    if (penalty.contradictions <= contradictionsMax) return false;
    penalty.heldUntilMs = 0;
    penalty.points = 0;
    return true;
  }

  #isForFew(nowMs: number, groupSize: number): boolean {
    if (groupSize < groupMin) return false;
    let many = Math.max(1, groupSize * fewRatio);
    for (const [id, { generation, heldUntilMs }] of this.#penalties.entries()) {
      if (heldUntilMs > nowMs || this.#points({ id, generation }, nowMs) >= holdFrom) many -= 1;
    }
    return many >= 0;
  }

  #points({ id, generation }: Life, nowMs: number): number {
    const penalty = this.#penalties.peek(id);
    if (penalty?.generation !== generation) return 0;
    return penalty.points * 2 ** (-(nowMs - penalty.atMs) / halfLifeMs);
  }

  #add(life: Life, points: number, nowMs: number): void {
    const { id, generation } = life;
    const known = this.#penalties.peek(id);
    const sum = Math.min(pointsMax, this.#points(life, nowMs) + points);
    const before = known?.generation === generation ? known : { heldUntilMs: 0, holds: 0, contradictions: 0 };
    this.#penalties.set(id, { ...before, generation, points: sum, atMs: nowMs });
  }
}
