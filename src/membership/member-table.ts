/**
 * Everybody this node has heard of, at most `membersMax`, and the rules by which its beliefs change:
 *
 *   - only hearing somebody directly proves that it lives; hearsay makes it known, so that it gets greeted
 *   - a higher generation of the same id is the end of the older life; a lower one is an echo of the past
 *   - who said goodbye stays gone until it starts again, whatever arrives late
 *   - one address holds one process: a new id at an old address ends the old one
 *   - two living ids under one name are a conflict, told but not judged
 *
 * It sends nothing and asks nothing; it answers with the events that a change amounts to.
 */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import type { Member, MemberEvent, MemberState, MemberView } from './member.ts';

export type Patience = {
  readonly silentAfterMs: number;
  readonly deadAfterMs: number;
  readonly forgetAfterMs: number;
};

export class MemberTable {
  readonly #self: Identity;
  readonly #membersMax: number;
  readonly #members = new Map<NodeId, Member>();
  /** Ids whose stored entry is out of date: written or removed with the next `remember`. */
  readonly unsaved = new Set<NodeId>();

  constructor(self: Identity, membersMax: number) {
    this.#self = self;
    this.#membersMax = membersMax;
  }

  get size(): number {
    return this.#members.size;
  }

  get(id: NodeId): Member | undefined {
    return this.#members.get(id);
  }

  /** Live: members that come or go during the iteration are seen or not, as with any Map. */
  values(): MapIterator<Member> {
    return this.#members.values();
  }

  views(nowMs: number): MemberView[] {
    const views: MemberView[] = [{ entry: this.#self, state: 'alive', silentMs: 0 }];
    for (const { entry, state, heardMs } of this.#members.values()) {
      if (state !== 'unconfirmed') views.push({ entry, state, silentMs: Math.max(0, Math.floor(nowMs - heardMs)) });
    }
    return views;
  }

  /** `from` proved its identity and spoke just now. */
  heard(nowMs: number, from: Identity): MemberEvent[] {
    if (from.id === this.#self.id) return this.#ownEcho(from);
    const member = this.#members.get(from.id) ?? this.#add(nowMs, from);
    if (member === undefined || from.generation < member.entry.generation) return [];
    if (from.generation > member.entry.generation)
      return [...this.#newLife(nowMs, member, from), ...this.#confirm(member, nowMs, 'restarted')];
    if (member.state === 'left') return [];
    member.heardMs = nowMs;
    member.contactMs = nowMs;
    return member.state === 'alive'
      ? []
      : this.#confirm(member, nowMs, member.state === 'unconfirmed' ? 'met' : 'heard again');
  }

  /** Somebody said that `entry` exists. */
  learned(nowMs: number, entry: Identity): MemberEvent[] {
    if (entry.id === this.#self.id) return [];
    const member = this.#members.get(entry.id);
    if (member === undefined) {
      this.#add(nowMs, entry);
      return [];
    }
    return entry.generation > member.entry.generation ? this.#newLife(nowMs, member, entry) : [];
  }

  left(nowMs: number, from: Identity, reason: string): MemberEvent[] {
    const member = this.#members.get(from.id);
    if (member === undefined || member.state === 'left' || from.generation < member.entry.generation) return [];
    member.entry = from;
    member.heardMs = nowMs;
    return this.#become(member, 'left', reason);
  }

  /** Judges silence. */
  swept(nowMs: number, patience: Patience): MemberEvent[] {
    const events: MemberEvent[] = [];
    for (const member of this.#members.values()) {
      const silentMs = nowMs - member.heardMs;
      if (silentMs >= patience.forgetAfterMs) this.#forget(member);
      else if (member.state === 'alive' && silentMs >= patience.silentAfterMs) {
        events.push(...this.#become(member, 'probe-failed', `silent for ${Math.round(silentMs)} ms`));
      } else if (member.state === 'probe-failed' && silentMs >= patience.deadAfterMs) {
        events.push(...this.#become(member, 'dead', `silent for ${Math.round(silentMs)} ms`));
      }
    }
    return events;
  }

  /** Another process runs with our id, most likely on a copy of our data directory. */
  #ownEcho(from: Identity): MemberEvent[] {
    if (from.generation === this.#self.generation) return [];
    return [{ type: 'member.conflict', member: from, reason: 'another process uses the id of this node' }];
  }

  #add(nowMs: number, entry: Identity): Member | undefined {
    if (this.#members.size >= this.#membersMax && !this.#makeRoom()) return undefined;
    const member: Member = { entry, state: 'unconfirmed', heardMs: nowMs, contactMs: -Infinity, awaitedId: undefined };
    this.#members.set(entry.id, member);
    return member;
  }

  /** The older life is over, and the new one has yet to be heard. */
  #newLife(nowMs: number, member: Member, entry: Identity): MemberEvent[] {
    const ended = isUp(member.state) ? this.#become(member, 'dead', `generation ${entry.generation} has started`) : [];
    Object.assign(member, { entry, state: 'unconfirmed', heardMs: nowMs, contactMs: -Infinity, awaitedId: undefined });
    return ended;
  }

  #confirm(member: Member, nowMs: number, reason: string): MemberEvent[] {
    member.heardMs = nowMs;
    member.contactMs = nowMs;
    const events: MemberEvent[] = [];
    for (const other of this.#members.values()) {
      if (other === member || !isUp(other.state)) continue;
      if (other.entry.host === member.entry.host && other.entry.port === member.entry.port) {
        events.push(...this.#become(other, 'dead', `${member.entry.id} has taken its address`));
      } else if (other.entry.name === member.entry.name) events.push(conflict(member.entry, other.entry));
    }
    if (member.entry.name === this.#self.name) events.push(conflict(member.entry, this.#self));
    return [...this.#become(member, 'alive', reason), ...events];
  }

  #become(member: Member, state: Exclude<MemberState, 'unconfirmed'>, reason: string): MemberEvent[] {
    member.state = state;
    if (state === 'alive' || state === 'left') this.unsaved.add(member.entry.id);
    return [{ type: `member.${state}`, member: member.entry, reason }];
  }

  #forget(member: Member): void {
    this.#members.delete(member.entry.id);
    this.unsaved.add(member.entry.id);
  }

  /** Gives up the member that was not heard for longest among those that are gone, or else among hearsay. */
  #makeRoom(): boolean {
    let worst: Member | undefined;
    for (const member of this.#members.values()) {
      if (isUp(member.state)) continue;
      if (worst === undefined || rank(member) < rank(worst)) worst = member;
    }
    if (worst !== undefined) this.#forget(worst);
    return worst !== undefined;
  }
}

export function isUp(state: MemberState): boolean {
  return state === 'alive' || state === 'probe-failed';
}

function rank(member: Member): number {
  return member.state === 'unconfirmed' ? member.heardMs : member.heardMs - Number.MAX_SAFE_INTEGER;
}

function conflict(member: Identity, other: Identity): MemberEvent {
  return { type: 'member.conflict', member, reason: `${other.id} at ${other.host}:${other.port} has the same name` };
}
