/**
 * Managers that recently requested group information from this node. Membership may not know them yet, so replies list
 * them: two managers that share this node as a seed learn of each other. Bounded in number and age.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Clock, Identity } from '../../base/ports.ts';
import type { GroupMember } from '../../consensus/state/state-machine.ts';

const retentionMs = 10_000;
const requestersMax = 64;

export class RecentRequesters {
  readonly #clock: Clock;
  readonly #requesters = new Map<NodeId, { readonly requester: Identity; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  record(requester: Identity): void {
    this.#requesters.delete(requester.id);
    this.#requesters.set(requester.id, { requester, atMs: this.#clock.nowMs() });
    const [oldest] = this.#requesters.keys();
    if (this.#requesters.size > requestersMax && oldest !== undefined) this.#requesters.delete(oldest);
  }

  of(dc: string): readonly GroupMember[] {
    const sinceMs = this.#clock.nowMs() - retentionMs;
    return [...this.#requesters.values()]
      .filter(({ requester, atMs }) => requester.dc === dc && atMs >= sinceMs)
      .map(({ requester: { id, name, host, port } }) => ({ id, name, host, port, standing: 'syncing' }));
  }
}
