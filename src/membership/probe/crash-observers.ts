/**
 * Crash evidence: holds connections to the next neighbours on a ring of hashed ids, so that a few members observe each
 * member; a broken connection starts a probe at once. It is only a hint: a death needs several observers.
 *
 * The ring is refreshed soon after the view has changed, but not while it still changes: during a mass join every
 * member would open connections in vain.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ConnectionChange, portClosedReason } from '../../base/ports.ts';
import type { MembershipContext } from '../state/context.ts';
import { type Member, isLiveMember, acceptsProbes, memberStatusHash } from '../state/member-table.ts';
import type { Prober } from './prober.ts';

/** The ring is refreshed after this many checks even if the view has changed at each of them. */
const checksMax = 5;

export class CrashObservers {
  readonly #context: MembershipContext;
  readonly #prober: Prober;
  /** The observed neighbours with their generation. */
  #observed: ReadonlyMap<NodeId, number> = new Map();
  /** The view hash for which they were chosen. */
  #observedView = 0;
  /** The view hash at the last check, and how many checks in a row have seen a change. */
  #checkedView = 0;
  #checks = 0;
  /** When the next check is due; infinite when none is. */
  #dueMs = Infinity;
  /** When the next ping over all connections is due. */
  #pingDueMs = Number.NEGATIVE_INFINITY;

  constructor(context: MembershipContext, prober: Prober) {
    this.#context = context;
    this.#prober = prober;
  }

  /** After every step: schedules a check if the view has changed. */
  scheduleIfChanged(): void {
    const { options, outbox, self, table } = this.#context;
    if (table.viewHash === this.#observedView || !self.hasDatagrams) return;
    if (this.#dueMs <= outbox.nowMs + options.syncPauseMs) return;
    this.#checkedView = table.viewHash;
    this.#checkAfter(options.syncPauseMs);
  }

  /** A timer that was replaced by an earlier one does nothing. */
  expire(dueMs: number): void {
    if (dueMs === this.#dueMs) this.#refreshRing();
  }

  /**
   * When two checks in a row see the same view: chooses the neighbours and pings the new ones. Closes no connection.
   */
  #refreshRing(): void {
    const { options, outbox, random, table } = this.#context;
    this.#checks += 1;
    if (table.viewHash !== this.#checkedView && this.#checks < checksMax) {
      this.#checkedView = table.viewHash;
      return this.#checkAfter(options.syncPauseMs);
    }
    this.#checks = 0;
    const before = this.#observed;
    if (table.viewHash !== this.#observedView) this.#choose();
    const isDue = outbox.nowMs >= this.#pingDueMs;
    if (isDue) this.#pingDueMs = outbox.nowMs + options.watchIntervalMs * random.between(0.8, 1.2);
    for (const [id, generation] of this.#observed) {
      if (isDue || before.get(id) !== generation) this.#ping(id);
    }
    return this.#checkAfter(this.#pingDueMs - outbox.nowMs);
  }

  #checkAfter(delayMs: number): void {
    const { outbox } = this.#context;
    this.#dueMs = outbox.nowMs + delayMs;
    outbox.schedule(delayMs, { kind: 'observe' });
  }

  #ping(id: NodeId): void {
    const { options, outbox, table } = this.#context;
    const member = table.get(id);
    if (member === undefined || !isLiveMember(member)) return;
    const purpose = { kind: 'watch', id } as const;
    const message = { kind: 'streamPing' } as const;
    outbox.push({ kind: 'request', to: member.entry, message, timeoutMs: options.syncTimeoutMs, purpose });
  }

  onConnectionChange(change: ConnectionChange): void {
    const { self, table } = this.#context;
    if (!isEvidence(change) || !self.hasDatagrams) return;
    const member =
      change.kind === 'disconnected'
        ? table.get(change.peer.id)
        : this.#memberAt(change.address.host, change.address.port);
    if (member === undefined || !acceptsProbes(member)) return;
    if (change.kind === 'disconnected' && change.peer.generation !== member.generation) return;
    // Also for a dead member: a member that does not know of the death may have requested an indirect probe.
    if (change.kind === 'refused') this.#prober.onPortClosed(member.id);
    if (!isLiveMember(member)) return;
    if (!this.#prober.isProbing(member.id)) this.#prober.probe(member, change.kind === 'refused');
  }

  /** The members that this node observes and those that observe it, as far as all see the same ring. */
  neighbours(): ReadonlySet<NodeId> {
    const ring = this.#ring();
    const { observersCount } = this.#context.options;
    return new Set([...ring.slice(0, observersCount), ...ring.slice(-observersCount)]);
  }

  #choose(): void {
    const { table, options } = this.#context;
    const next = this.#ring().slice(0, options.observersCount);
    this.#observed = new Map(next.map((id) => [id, table.get(id)?.generation ?? 0]));
    this.#observedView = table.viewHash;
    this.#checkedView = table.viewHash;
  }

  /** The live members that accept probes, in ring order from this node on. */
  #ring(): readonly NodeId[] {
    const { self, table } = this.#context;
    const ownPosition = ringPosition(self.id);
    const live = [...table.all()].filter((member) => isLiveMember(member) && acceptsProbes(member));
    const others = live.map(({ id }) => ({ id, distance: (ringPosition(id) - ownPosition) >>> 0 }));
    others.sort((a, b) => a.distance - b.distance || (a.id < b.id ? -1 : 1));
    return others.map(({ id }) => id);
  }

  /** The member with this address; a live one if several members have had it. */
  #memberAt(host: string, port: number): Member | undefined {
    let found: Member | undefined;
    for (const member of this.#context.table.all()) {
      if (member.entry.port !== port || member.entry.host !== host) continue;
      if (isLiveMember(member)) return member;
      found = member;
    }
    return found;
  }
}

/** A closed port, or a connection that broke against the will of both sides. Any other change proves nothing. */
function isEvidence(change: ConnectionChange): change is Exclude<ConnectionChange, { kind: 'connected' }> {
  if (change.kind === 'connected') return false;
  return change.kind === 'refused' ? change.reason === portClosedReason : !change.graceful;
}

function ringPosition(id: NodeId): number {
  return memberStatusHash(id, { generation: 0, incarnation: 0, state: 'alive' });
}
