/**
 * Crash evidence. The members form a ring (by a hash of their ids) and each holds a connection to its next neighbours:
 * every member is observed by a few others, whoever they are talking to otherwise. A connection that closes without a
 * word, or a host that refuses one, is a hint and no verdict: it starts a probe by the observer and its helpers at once.
 * Only when the host positively refuses to several of them is the suspicion cut short (suspicion.ts); a single observer
 * that lies, or sits behind a cut of its own, buries nobody. Silence takes the full suspicion time.
 */
import type { NodeId } from '../base/ids.ts';
import { type ConnectionChange, portIsClosed } from '../base/ports.ts';
import type { Group } from './group.ts';
import { type Member, isLiving, isProbed, standingHash } from './member-table.ts';
import type { Prober } from './prober.ts';

export class Observers {
  readonly #group: Group;
  readonly #prober: Prober;
  #observed: readonly NodeId[] = [];
  #observedView = -1;

  constructor(group: Group, prober: Prober) {
    this.#group = group;
    this.#prober = prober;
  }

  /** Keeps the connections to the next neighbours on the ring open, and opens those to new ones. */
  tick(): void {
    const { options, out, random, table } = this.#group;
    if (table.viewHash !== this.#observedView) this.#choose();
    for (const id of this.#observed) {
      const member = table.get(id);
      if (member === undefined || !isLiving(member)) continue;
      const purpose = { kind: 'watch', id } as const;
      out.put({
        kind: 'request',
        to: member.entry,
        message: { kind: 'streamPing' },
        timeoutMs: options.syncTimeoutMs,
        purpose,
      });
    }
    // While the group still changes, look again soon.
    const settled = table.viewHash === this.#observedView && this.#observed.length > 0;
    const delayMs = settled ? options.watchIntervalMs * random.between(0.8, 1.2) : options.syncPauseMs;
    out.after(delayMs, { kind: 'watch' });
  }

  changed(change: ConnectionChange): void {
    const { self, table } = this.#group;
    if (!isEvidence(change) || !self.hasDatagrams) return;
    const member =
      change.kind === 'disconnected' ? table.get(change.peer.id) : this.#at(change.address.host, change.address.port);
    if (member === undefined || !isProbed(member)) return;
    if (change.kind === 'disconnected' && change.peer.generation !== member.generation) return;
    // Also of one that we have given up: somebody who has not heard of it may have asked us to look.
    if (change.kind === 'refused') this.#prober.refused(member.id);
    if (!isLiving(member)) return;
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
    this.#observed = this.#ring().slice(0, options.observersCount);
    this.#observedView = table.viewHash;
  }

  /** The living that can be probed, beginning with the one after us. */
  #ring(): readonly NodeId[] {
    const { self, table } = this.#group;
    const ownPlace = placeOf(self.id);
    const living = [...table.all()].filter((member) => isLiving(member) && isProbed(member));
    const places = living.map(({ id }) => ({ id, distance: (placeOf(id) - ownPlace) >>> 0 }));
    places.sort((a, b) => a.distance - b.distance || (a.id < b.id ? -1 : 1));
    return places.map(({ id }) => id);
  }

  /** A living one, if any; more than one member may have had this address. */
  #at(host: string, port: number): Member | undefined {
    let found: Member | undefined;
    for (const member of this.#group.table.all()) {
      if (member.entry.port !== port || member.entry.host !== host) continue;
      if (isLiving(member)) return member;
      found = member;
    }
    return found;
  }
}

/** What neither side wanted: only then does a closed or missing connection say anything. */
function isEvidence(change: ConnectionChange): change is Exclude<ConnectionChange, { kind: 'connected' }> {
  if (change.kind === 'connected') return false;
  return change.kind === 'refused' ? change.reason === portIsClosed : !change.wanted;
}

function placeOf(id: NodeId): number {
  return standingHash(id, { generation: 0, incarnation: 0, state: 'alive' });
}
