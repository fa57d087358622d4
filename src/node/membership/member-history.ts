/**
 * The last state changes of each member with their evidence (`remuster why`). Separate from the event log, so that
 * other events never evict them. Bounded per member and in the number of members.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { MembershipEvent } from '../../membership/state/membership-event.ts';

export type MemberHistoryEntry = Pick<
  MembershipEvent,
  'type' | 'generation' | 'incarnation' | 'why' | 'accusers' | 'refusedTo'
> & { readonly time: string; readonly seq: number };

export const memberHistoryMembersMax = 2_000;
export const memberHistoryEntriesMax = 32;

export class MemberHistory {
  readonly #entries = new BoundedLru<NodeId, MemberHistoryEntry[]>(memberHistoryMembersMax);

  record(event: MembershipEvent, time: string, seq: number): void {
    const { type, generation, incarnation, why, accusers, refusedTo } = event;
    const entries = this.#entries.get(event.id) ?? [];
    entries.push({ seq, time, type, generation, incarnation, why, accusers, refusedTo });
    if (entries.length > memberHistoryEntriesMax) entries.shift();
    this.#entries.set(event.id, entries);
  }

  /** Oldest first. */
  of(id: NodeId): readonly MemberHistoryEntry[] {
    return [...(this.#entries.peek(id) ?? [])];
  }
}
