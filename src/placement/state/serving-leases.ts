/**
 * The leader's serving leases. `expired` only after 1.1 of the lease, proof of exit or a later life; a node stops
 * itself at 0.8. Never asks the registry.
 *
 *   live     granted within the lease: it answers, and can be given something
 *   unsure   it may or may not be serving: nothing of it is given away, and nothing is given to it
 *   over     it does not serve: 1.1 of the lease have passed since the last grant and since this leadership began, or
 *            its process is surely gone, or a later life of the same node has been seen
 *
 * From the moment in which something is taken from a node because its lease is over until that has surely happened or
 * failed (a dispute), the node is granted nothing. Afterwards it is granted something only when its address table shows
 * what was taken. So who is live has seen what it must not serve, and one that cannot see it is over before long. It
 * never asks the registry and owns no timer.
 */
import type { NodeId } from '../../base/ids.ts';

export type ServingLeaseStatus = 'live' | 'unsure' | 'over';
type Grant = 'granted' | 'superseded' | 'disputed' | 'behind' | 'full';

/** The latest known life of a node. */
type Life = {
  generation: number;
  /** Undefined: not by this leadership. */
  grantedMs: number | undefined;
  goneMs: number | undefined;
  disputes: number;
  /** What its address table has to show. */
  neededRevision: number;
};

const newLife = { grantedMs: undefined, goneMs: undefined, disputes: 0, neededRevision: 0 } as const;
const regrantShare = 1.1;
/** What a process asked just before it ended may arrive after the news of its end; so late it does not. */
const lateShare = 2;
const nodesMax = 10_000;

export class ServingLeases {
  readonly leaseMs: number;
  readonly #lives = new Map<NodeId, Life>();
  #beginMs = 0;
  /** What the address tables of all nodes have to show. */
  #neededRevision = 0;

  constructor(leaseMs: number) {
    this.leaseMs = leaseMs;
  }

  /**
   * A leadership begins: it knows nothing of what the one before has granted last. Whoever ended a moment ago, perhaps
   * together with the leader before, is gone for this one as well.
   */
  begin(nowMs: number): void {
    for (const [node, { generation, goneMs }] of this.#lives) {
      if (goneMs === undefined || nowMs >= goneMs + this.leaseMs) this.#lives.delete(node);
      else this.#lives.set(node, { ...newLife, generation, goneMs });
    }
    this.#beginMs = nowMs;
    this.#neededRevision = 0;
  }

  /** `seenRevision`: how far the address table of the node has got. */
  renew(nowMs: number, node: NodeId, generation: number, seenRevision = Infinity): Grant {
    const life = this.#life(nowMs, node, generation);
    if (life === undefined) return 'full';
    if (generation < life.generation) return 'superseded';
    if (life.goneMs !== undefined && nowMs < life.goneMs + lateShare * this.leaseMs) return 'superseded';
    if (life.disputes > 0) return 'disputed';
    if (seenRevision < this.requiredRevision(node)) return 'behind';
    life.goneMs = undefined;
    life.grantedMs = nowMs;
    return 'granted';
  }

  /** That life of the node has begun, so the ones before have ended. */
  lifeSeen(nowMs: number, node: NodeId, generation: number): void {
    this.#life(nowMs, node, generation);
  }

  /** Proof: the process of that life runs no longer. */
  markGone(nowMs: number, node: NodeId, generation: number): void {
    const life = this.#life(nowMs, node, generation);
    if (life?.generation === generation) life.goneMs = nowMs;
  }

  /** Something is being taken from that life of the node. To be followed by `settled`. */
  blockGrants(nowMs: number, node: NodeId, generation: number): void {
    const life = this.#life(nowMs, node, generation);
    if (life?.generation === generation) life.disputes += 1;
  }

  /** With the revision if it was taken. */
  unblockGrants(node: NodeId, generation: number, revokedRevision: number | undefined): void {
    const life = this.#lives.get(node);
    if (life?.generation !== generation) return;
    life.disputes = Math.max(0, life.disputes - 1);
    life.neededRevision = Math.max(life.neededRevision, revokedRevision ?? 0);
  }

  /** All that leaders before have done is older than this. */
  requireRevisionOfAll(revision: number): void {
    this.#neededRevision = revision;
  }

  /** What a node has to have seen before it serves. */
  requiredRevision(node: NodeId): number {
    return Math.max(this.#neededRevision, this.#lives.get(node)?.neededRevision ?? 0);
  }

  /** The latest life that was seen; undefined if none was. */
  generationOf(node: NodeId): number | undefined {
    return this.#lives.get(node)?.generation;
  }

  status(nowMs: number, node: NodeId, generation: number): ServingLeaseStatus {
    const life = this.#lives.get(node);
    if (life !== undefined && generation < life.generation) return 'over';
    const same = life?.generation === generation ? life : undefined;
    if (same !== undefined && (same.goneMs !== undefined || same.disputes > 0)) return 'over';
    if (same?.grantedMs !== undefined && nowMs < same.grantedMs + this.leaseMs) return 'live';
    return nowMs < this.#regrantMs(same) ? 'unsure' : 'over';
  }

  /** It is proved that this life has ended: more than that it does not serve, because it may be silent only. */
  hasEnded(node: NodeId, generation: number): boolean {
    const life = this.#lives.get(node);
    if (life === undefined || generation > life.generation) return false;
    return generation < life.generation || life.goneMs !== undefined;
  }

  /** When its standing changes if nothing is heard; undefined if it does not. */
  nextChangeMs(nowMs: number, node: NodeId, generation: number): number | undefined {
    const standing = this.status(nowMs, node, generation);
    if (standing === 'over') return undefined;
    const life = this.#lives.get(node);
    const same = life?.generation === generation ? life : undefined;
    return standing === 'live' ? (same?.grantedMs ?? nowMs) + this.leaseMs : this.#regrantMs(same);
  }

  #regrantMs(life: Life | undefined): number {
    return Math.max(this.#beginMs, life?.grantedMs ?? this.#beginMs) + regrantShare * this.leaseMs;
  }

  /** The entry of that node, of this life or a later one; undefined when there is no room for another node. */
  #life(nowMs: number, node: NodeId, generation: number): Life | undefined {
    const life = this.#lives.get(node);
    if (life !== undefined && life.generation >= generation) return life;
    if (life === undefined && this.#lives.size >= nodesMax && !this.#makeRoom(nowMs)) return undefined;
    const next = { ...newLife, generation };
    this.#lives.set(node, next);
    return next;
  }

  /** Who is over without a doubt is over as well when nothing is known of it. */
  #makeRoom(nowMs: number): boolean {
    for (const [node, { generation, disputes }] of this.#lives) {
      if (disputes === 0 && this.status(nowMs, node, generation) === 'over' && nowMs >= this.#regrantMs(undefined)) {
        this.#lives.delete(node);
      }
    }
    return this.#lives.size < nodesMax;
  }
}
