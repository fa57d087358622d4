/**
 * Member tables for very large groups: one shared list plus the differences of each node, because nearly all entries
 * are equal. To the machine it is a full table, with two simplifications: the probe order is a random stride through
 * the list instead of a shuffle, and a search for a member with a property gives up after some draws.
 */
import type { NodeId } from '../../../src/base/ids.ts';
import type { Random } from '../../../src/base/random.ts';
import type { Claim, MemberStatus } from '../../../src/membership/state/claim.ts';
import {
  type Member,
  MemberTable,
  type MemberTableLike,
  isLiveMember,
  memberStatusHash,
} from '../../../src/membership/state/member-table.ts';
import type { NodeEntry } from '../../../src/messages/node-entry.ts';

/** All members, as every member knows them at the start. */
export class SharedMemberList {
  readonly entries: readonly NodeEntry[];
  readonly viewHash: number;
  readonly #byId: ReadonlyMap<NodeId, NodeEntry>;

  constructor(entries: readonly NodeEntry[]) {
    this.entries = entries;
    this.#byId = new Map(entries.map((entry) => [entry.id, entry]));
    this.viewHash = entries.reduce((sum, entry) => (sum + hashOf(entry)) >>> 0, 0);
  }

  get(id: NodeId): NodeEntry | undefined {
    return this.#byId.get(id);
  }
}

const drawsMax = 20;

export class SharedMemberTable implements MemberTableLike {
  readonly #list: SharedMemberList;
  readonly #self: NodeId;
  readonly #random: Random;
  readonly #own: MemberTable;
  /** The share of this node and of the entries in its own table in the hash of the list. */
  #ownHash: number;
  #ownCount = 1;
  #place: number;
  #stride = 1;
  #left = 0;

  constructor(list: SharedMemberList, self: NodeEntry, random: Random) {
    this.#list = list;
    this.#self = self.id;
    this.#random = random;
    this.#own = new MemberTable(self.id, list.entries.length, random.fork('own'));
    this.#ownHash = hashOf(self);
    this.#place = random.below(list.entries.length);
  }

  get(id: NodeId): Member | undefined {
    const known = this.#own.get(id);
    if (known !== undefined || id === this.#self) return known;
    const entry = this.#list.get(id);
    if (entry === undefined) return undefined;
    this.#ownHash = (this.#ownHash + hashOf(entry)) >>> 0;
    this.#ownCount += 1;
    return this.#own.apply(joinClaimOf(entry), 0);
  }

  *all(): IterableIterator<Member> {
    for (const { id } of this.#list.entries) {
      const member = this.get(id);
      if (member !== undefined) yield member;
    }
  }

  get size(): number {
    return this.#list.entries.length - 1;
  }

  get liveCount(): number {
    return this.#list.entries.length - this.#ownCount + this.#own.liveCount;
  }

  get viewHash(): number {
    return (this.#list.viewHash - this.#ownHash + this.#own.viewHash) >>> 0;
  }

  markChanged(id: NodeId): void {
    this.#own.markChanged(id);
  }

  takeChanged(): ReadonlySet<NodeId> {
    return this.#own.takeChanged();
  }

  lastKnown(id: NodeId): MemberStatus | undefined {
    return this.get(id);
  }

  apply(claim: Claim, nowMs: number): Member | undefined {
    return this.get(claim.id) === undefined ? undefined : this.#own.apply(claim, nowMs);
  }

  tombstone(member: Member): void {
    this.#own.tombstone(member);
  }

  nextToProbe(): Member | undefined {
    for (let tries = 0; tries < drawsMax; tries++) {
      if (this.#left === 0) this.#newRound();
      this.#left -= 1;
      this.#place = (this.#place + this.#stride) % this.#list.entries.length;
      const member = this.#at(this.#place);
      if (member !== undefined && isLiveMember(member)) return member;
    }
    return undefined;
  }

  pick(count: number, fits: (member: Member) => boolean): Member[] {
    const picked = new Set<Member>();
    for (let draws = 0; draws < drawsMax * count && picked.size < count; draws++) {
      const member = this.#at(this.#random.below(this.#list.entries.length));
      if (member !== undefined && fits(member)) picked.add(member);
    }
    return [...picked];
  }

  #at(place: number): Member | undefined {
    return this.get((this.#list.entries[place] as NodeEntry).id);
  }

  /** A stride without a common divisor visits every member once. */
  #newRound(): void {
    const { length } = this.#list.entries;
    this.#left = length;
    do this.#stride = 1 + this.#random.below(length);
    while (divisor(this.#stride, length) > 1);
  }
}

export function joinClaimOf(entry: NodeEntry): Claim {
  const { id, generation } = entry;
  return { kind: 'join', id, generation, incarnation: 0, by: id, refused: false, entry };
}

function hashOf({ id, generation }: NodeEntry): number {
  return memberStatusHash(id, { generation, incarnation: 0, state: 'alive' });
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}
