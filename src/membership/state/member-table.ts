/**
 * All known members with the dead and left ones, tombstones of the removed ones (so that an old generation cannot
 * return), the view hash, and the probe order, reshuffled per round. Applies claims that suspicion-policy.ts accepted;
 * never decides what to believe.
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
  /** When `state` was entered. */
  sinceMs: number;
  /** The last message of this member. */
  lastMessageMs: number;
  /** The direct ping of a probe timed out and nothing has cleared it since: operators see `probe-failed`. */
  probeFailed: boolean;
  health: number;
  stuck: boolean;
  lagMs: number;
  viewHash: number;
  /** Version of the embedded state that was applied last. */
  stateVersion: number | undefined;
  roundTrip: RttEstimator;
  coordinate: Coordinate | undefined;
};

/** What membership needs of a table; an experiment with a very large group brings its own. */
export type MemberTableLike = Pick<MemberTable, keyof MemberTable>;

export class MemberTable {
  readonly #self: NodeId;
  readonly #random: Random;
  readonly #membersMax: number;
  readonly #members = new Map<NodeId, Member>();
  /** The values of `#members`, for random picks. */
  readonly #sampleList: Member[] = [];
  readonly #tombstones: BoundedLru<NodeId, MemberStatus>;
  /** Members whose view may have changed since `takeChanged`. */
  #changed = new Set<NodeId>();
  /** Members that are still to be probed in this round. */
  #round: NodeId[] = [];
  /** Number of alive and suspect members; `#viewHash` is the sum of their hashes. */
  #liveCount = 0;
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

  /** Alive and suspect members, without this node. */
  get liveCount(): number {
    return this.#liveCount;
  }

  /** Over alive and suspect members: equal at two nodes with equal views, whatever the order of arrival. */
  get viewHash(): number {
    return this.#viewHash;
  }

  /** The view of this member has changed. */
  markChanged(id: NodeId): void {
    this.#changed.add(id);
  }

  takeChanged(): ReadonlySet<NodeId> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** What a claim about this id must supersede: the status of the member, or of its tombstone. */
  lastKnown(id: NodeId): MemberStatus | undefined {
    return this.#members.get(id) ?? this.#tombstones.peek(id);
  }

  /** Applies a claim. Undefined when the member is unknown and cannot be added: no entry, or the table is full. */
  apply(claim: Claim, nowMs: number): Member | undefined {
    const member = this.#members.get(claim.id) ?? this.#add(claim, nowMs);
    if (member === undefined) return undefined;
    this.#count(member, -1);
    const state = claimedState(claim.kind);
    if (claim.generation > member.generation) resetReports(member);
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

  /** Removes a member and keeps its status as a tombstone. */
  tombstone(member: Member): void {
    this.#count(member, -1);
    this.#members.delete(member.id);
    const index = this.#sampleList.indexOf(member);
    const last = this.#sampleList.pop();
    if (last !== undefined && last !== member) this.#sampleList[index] = last;
    this.#changed.add(member.id);
    const { generation, incarnation, state } = member;
    this.#tombstones.set(member.id, { generation, incarnation, state });
  }

  /** The next member to probe; undefined if no member can be probed. */
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
    // Random draws cost less than a shuffle of a large table; if most members do not fit, each is checked once.
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
      lastMessageMs: nowMs,
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
    // A new member is probed within the current round, at a random position.
    this.#round.splice(this.#random.below(this.#round.length + 1), 0, member.id);
    this.#count(member, 1);
    return member;
  }

  /** Replaces the member that has been dead or left for longest by a tombstone. */
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
    this.#liveCount += sign;
    this.#viewHash = (this.#viewHash + sign * memberStatusHash(member.id, member)) >>> 0;
  }
}

export function isLiveMember(member: Member): boolean {
  return member.state === 'alive' || member.state === 'suspect';
}

/** True for a member with datagrams: every member can probe it. The others ping the member that watches them. */
export function acceptsProbes(member: Member): boolean {
  return member.entry.watchedBy === undefined;
}

/** A new generation inherits no report of the previous one. */
function resetReports(member: Member): void {
  member.health = 0;
  member.stuck = false;
  member.lagMs = 0;
  member.viewHash = 0;
  member.stateVersion = undefined;
  member.roundTrip = new RttEstimator();
  member.coordinate = undefined;
}

/** The summand of one member in the view hash; a sum does not depend on the order. */
export function memberStatusHash(id: NodeId, status: MemberStatus): number {
  const text = `${id}/${status.generation}/${status.incarnation}/${status.state}`;
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}
