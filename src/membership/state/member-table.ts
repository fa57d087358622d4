/**
 * All known members, dead and departed ones included, and tombstones of forgotten lives, so that no zombie returns
 * under them; the view hash; the probe order, reshuffled per round. Applies claims; never judges them.
 *
 * The table applies claims that were judged elsewhere; it starts no timers and tells nobody.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { NodeEntry } from '../../messages/node-entry.ts';
import type { Claim, MemberState, MemberStatus } from './claim.ts';
import { claimedState } from './claim.ts';
import type { Coordinate } from './coordinates.ts';
import { RttEstimator } from './rtt-estimator.ts';

export type Member = {
  readonly id: NodeId;
  entry: NodeEntry;
  generation: number;
  incarnation: number;
  state: MemberState;
  /** Of the present state. */
  sinceMs: number;
  heardMs: number;
  /** A probe round without any answer is under way or just ended: shown to people as probe-failed. */
  probeFailed: boolean;
  health: number;
  stuck: boolean;
  lagMs: number;
  viewHash: number;
  /** Of the embedded state that was taken over last. */
  stateVersion: number | undefined;
  roundTrip: RttEstimator;
  coordinate: Coordinate | undefined;
};

/** What the rest of membership asks of a table; an experiment with a very large group brings its own. */
export type MemberTableLike = Pick<MemberTable, keyof MemberTable>;

export class MemberTable {
  readonly #self: NodeId;
  readonly #random: Random;
  readonly #membersMax: number;
  readonly #members = new Map<NodeId, Member>();
  /** The same members, to draw from. */
  readonly #sampleList: Member[] = [];
  readonly #tombstones: BoundedLru<NodeId, MemberStatus>;
  /** Of whom something that is shown may have changed since they were last taken. */
  #changed = new Set<NodeId>();
  #round: NodeId[] = [];
  #living = 0;
  #viewHash = 0;

  constructor(self: NodeId, membersMax: number, random: Random) {
    this.#self = self;
    this.#membersMax = membersMax;
    this.#random = random;
    this.#tombstones = new BoundedLru(membersMax);
  }

  get(id: NodeId): Member | undefined {
    return this.#members.get(id);
  }

  all(): IterableIterator<Member> {
    return this.#members.values();
  }

  get size(): number {
    return this.#members.size;
  }

  /** Alive and suspect ones, without us. */
  get liveCount(): number {
    return this.#living;
  }

  /** Over the living: equal at two nodes whose views are equal, whatever the order in which they were learned. */
  get viewHash(): number {
    return this.#viewHash;
  }

  /** Something that is shown of this member changed. */
  markChanged(id: NodeId): void {
    this.#changed.add(id);
  }

  takeChanged(): ReadonlySet<NodeId> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** What a claim about this id must beat: what is known now, or what was known when it was forgotten. */
  lastKnown(id: NodeId): MemberStatus | undefined {
    return this.#members.get(id) ?? this.#tombstones.peek(id);
  }

  /** Takes a claim over. Undefined when the member is unknown and cannot be added: no entry, or the table is full. */
  apply(claim: Claim, nowMs: number): Member | undefined {
    const member = this.#members.get(claim.id) ?? this.#add(claim, nowMs);
    if (member === undefined) return undefined;
    this.#count(member, -1);
    const state = claimedState(claim.kind);
    if (claim.generation > member.generation) forgetLife(member);
    if (claim.entry !== undefined && claim.generation >= member.generation) member.entry = claim.entry;
    if (state !== member.state) member.sinceMs = nowMs;
    member.generation = claim.generation;
    member.incarnation = claim.incarnation;
    member.state = state;
    if (state === 'alive') member.probeFailed = false;
    this.#count(member, 1);
    this.#changed.add(member.id);
    return member;
  }

  /** Forgets a member but remembers that its life is over. */
  tombstone(member: Member): void {
    this.#count(member, -1);
    this.#members.delete(member.id);
    const place = this.#sampleList.indexOf(member);
    const last = this.#sampleList.pop();
    if (last !== undefined && last !== member) this.#sampleList[place] = last;
    this.#changed.add(member.id);
    const { generation, incarnation, state } = member;
    this.#tombstones.set(member.id, { generation, incarnation, state });
  }

  /** The next member to probe, or undefined if there is nobody. */
  nextToProbe(): Member | undefined {
    for (let tries = 0; tries < 2; tries++) {
      for (let id = this.#round.pop(); id !== undefined; id = this.#round.pop()) {
        const member = this.#members.get(id);
        if (member !== undefined && isLiveMember(member) && acceptsProbes(member)) return member;
      }
      this.#round = this.#random.shuffled([...this.#members.keys()]);
    }
    return undefined;
  }

  /** Up to `count` different members that fit, at random. */
  pick(count: number, fits: (member: Member) => boolean): Member[] {
    const picked = new Map<NodeId, Member>();
    const candidates = this.#sampleList;
    // Drawing beats shuffling for large tables; when most do not fit, look at each once.
    for (let draws = 0; draws < 3 * count && candidates.length > 8 && picked.size < count; draws++) {
      const member = this.#random.pick(candidates);
      if (fits(member)) picked.set(member.id, member);
    }
    if (picked.size >= count) return [...picked.values()];
    for (const member of this.#random.shuffled(candidates)) {
      if (picked.size >= count) break;
      if (fits(member)) picked.set(member.id, member);
    }
    return [...picked.values()];
  }

  #add(claim: Claim, nowMs: number): Member | undefined {
    if (claim.entry === undefined || claim.id === this.#self) return undefined;
    if (this.#members.size >= this.#membersMax && !this.#makeRoom()) return undefined;
    const member: Member = {
      id: claim.id,
      entry: claim.entry,
      generation: claim.generation,
      incarnation: claim.incarnation,
      state: claimedState(claim.kind),
      sinceMs: nowMs,
      heardMs: nowMs,
      probeFailed: false,
      health: 0,
      stuck: false,
      lagMs: 0,
      viewHash: 0,
      stateVersion: undefined,
      roundTrip: new RttEstimator(),
      coordinate: undefined,
    };
    this.#members.set(member.id, member);
    this.#sampleList.push(member);
    this.#tombstones.delete(member.id);
    // A newcomer is probed within the present round, at a random place of it.
    this.#round.splice(this.#random.below(this.#round.length + 1), 0, member.id);
    this.#count(member, 1);
    return member;
  }

  /** The one that has been gone for longest gives way to a living one. */
  #makeRoom(): boolean {
    let oldest: Member | undefined;
    for (const member of this.#members.values()) {
      if (!isLiveMember(member) && member.sinceMs < (oldest?.sinceMs ?? Infinity)) oldest = member;
    }
    if (oldest !== undefined) this.tombstone(oldest);
    return oldest !== undefined;
  }

  #count(member: Member, sign: 1 | -1): void {
    if (!isLiveMember(member)) return;
    this.#living += sign;
    this.#viewHash = (this.#viewHash + sign * memberStatusHash(member.id, member)) >>> 0;
  }
}

export function isLiveMember(member: Member): boolean {
  return member.state === 'alive' || member.state === 'suspect';
}

/** It answers datagrams, so anybody can ask it. The others are heard by the one they ping. */
export function acceptsProbes(member: Member): boolean {
  return member.entry.watchedBy === undefined;
}

/** A new life starts with nothing of the old one. */
function forgetLife(member: Member): void {
  member.health = 0;
  member.stuck = false;
  member.lagMs = 0;
  member.viewHash = 0;
  member.stateVersion = undefined;
  member.roundTrip = new RttEstimator();
  member.coordinate = undefined;
}

/** One summand of the hash of a view; sums do not depend on order. */
export function memberStatusHash(id: NodeId, standing: MemberStatus): number {
  const text = `${id}/${standing.generation}/${standing.incarnation}/${standing.state}`;
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}
