/**
 * Crash evidence: holds connections to the next neighbours on a ring of hashed ids, so each member is observed by a few
 * others; a broken one starts a probe at once. A hint only: death needs several observers.
 *
 * Neighbours are chosen anew soon after the group has changed, but not while it still does: in a mass join each would
 * make half a dozen connections for nothing, in the very moment in which everybody has most to do.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ConnectionChange, portClosedReason } from '../../base/ports.ts';
import type { MembershipContext } from '../state/context.ts';
import { type Member, isLiveMember, acceptsProbes, memberStatusHash } from '../state/member-table.ts';
import type { Prober } from './prober.ts';

/** A group that changes at every look has its neighbours chosen nevertheless. */
const looksMax = 5;

export class CrashObservers {
  readonly #group: MembershipContext;
  readonly #prober: Prober;
  /** By id, in which life. */
  #observed: ReadonlyMap<NodeId, number> = new Map();
  /** The group from which they were chosen. */
  #observedView = 0;
  /** The group as it was at the last look, and how many looks have seen it change. */
  #seenView = 0;
  #looks = 0;
  /** When the next look is due; infinite when none is. */
  #dueMs = Infinity;
  /** When all connections are to carry a word again. */
  #wordsMs = Number.NEGATIVE_INFINITY;

  constructor(group: MembershipContext, prober: Prober) {
    this.#group = group;
    this.#prober = prober;
  }

  /** After every step: a group that has changed is looked at soon. */
  scheduleIfChanged(): void {
    const { options, outbox, self, table } = this.#group;
    if (table.viewHash === this.#observedView || !self.hasDatagrams) return;
    if (this.#dueMs <= outbox.nowMs + options.syncPauseMs) return;
    this.#seenView = table.viewHash;
    this.#lookAfter(options.syncPauseMs);
  }

  /** The timer of a look; not of the next one if that was moved forward meanwhile. */
  expire(dueMs: number): void {
    if (dueMs === this.#dueMs) this.#refreshRing();
  }

  /** Once two looks have seen the same group: opens connections to new neighbours on the ring; keeps all open. */
  #refreshRing(): void {
    const { options, outbox, random, table } = this.#group;
    this.#looks += 1;
    if (table.viewHash !== this.#seenView && this.#looks < looksMax) {
      this.#seenView = table.viewHash;
      return this.#lookAfter(options.syncPauseMs);
    }
    this.#looks = 0;
    const before = this.#observed;
    if (table.viewHash !== this.#observedView) this.#choose();
    const isDue = outbox.nowMs >= this.#wordsMs;
    if (isDue) this.#wordsMs = outbox.nowMs + options.watchIntervalMs * random.between(0.8, 1.2);
    for (const [id, generation] of this.#observed) {
      if (isDue || before.get(id) !== generation) this.#ping(id);
    }
    return this.#lookAfter(this.#wordsMs - outbox.nowMs);
  }

  #lookAfter(delayMs: number): void {
    const { outbox } = this.#group;
    this.#dueMs = outbox.nowMs + delayMs;
    outbox.after(delayMs, { kind: 'watch' });
  }

  #ping(id: NodeId): void {
    const { options, outbox, table } = this.#group;
    const member = table.get(id);
    if (member === undefined || !isLiveMember(member)) return;
    const purpose = { kind: 'watch', id } as const;
    const message = { kind: 'streamPing' } as const;
    outbox.put({ kind: 'request', to: member.entry, message, timeoutMs: options.syncTimeoutMs, purpose });
  }

  onConnectionChange(change: ConnectionChange): void {
    const { self, table } = this.#group;
    if (!isEvidence(change) || !self.hasDatagrams) return;
    const member =
      change.kind === 'disconnected' ? table.get(change.peer.id) : this.#at(change.address.host, change.address.port);
    if (member === undefined || !acceptsProbes(member)) return;
    if (change.kind === 'disconnected' && change.peer.generation !== member.generation) return;
    // Also of one that we have given up: somebody who has not heard of it may have asked us to look.
    if (change.kind === 'refused') this.#prober.onPortClosed(member.id);
    if (!isLiveMember(member)) return;
    if (!this.#prober.isProbing(member.id)) this.#prober.probe(member, change.kind === 'refused');
  }

  /** Those we observe and those who observe us, as far as all see the same ring. */
  neighbours(): ReadonlySet<NodeId> {
    const ring = this.#ring();
    const { observersCount } = this.#group.options;
    return new Set([...ring.slice(0, observersCount), ...ring.slice(-observersCount)]);
  }

  #choose(): void {
    const { table, options } = this.#group;
    const next = this.#ring().slice(0, options.observersCount);
    this.#observed = new Map(next.map((id) => [id, table.get(id)?.generation ?? 0]));
    this.#observedView = table.viewHash;
    this.#seenView = table.viewHash;
  }

  /** The living that can be probed, beginning with the one after us. */
  #ring(): readonly NodeId[] {
    const { self, table } = this.#group;
    const ownPlace = placeOf(self.id);
    const living = [...table.all()].filter((member) => isLiveMember(member) && acceptsProbes(member));
    const places = living.map(({ id }) => ({ id, distance: (placeOf(id) - ownPlace) >>> 0 }));
    places.sort((a, b) => a.distance - b.distance || (a.id < b.id ? -1 : 1));
    return places.map(({ id }) => id);
  }

  /** A living one, if any; more than one member may have had this address. */
  #at(host: string, port: number): Member | undefined {
    let found: Member | undefined;
    for (const member of this.#group.table.all()) {
      if (member.entry.port !== port || member.entry.host !== host) continue;
      if (isLiveMember(member)) return member;
      found = member;
    }
    return found;
  }
}

/** What neither side wanted: only then does a closed or missing connection say anything. */
function isEvidence(change: ConnectionChange): change is Exclude<ConnectionChange, { kind: 'connected' }> {
  if (change.kind === 'connected') return false;
  return change.kind === 'refused' ? change.reason === portClosedReason : !change.graceful;
}

function placeOf(id: NodeId): number {
  return memberStatusHash(id, { generation: 0, incarnation: 0, state: 'alive' });
}
