/**
 * Two live members with one name: the lowest id keeps it, at every node. Reports each pair once; both stay members,
 * because ids decide everything but what a name means.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext } from '../state/context.ts';
import { type Member, isLiveMember } from '../state/member-table.ts';
import { noEvidence } from '../state/membership-event.ts';

const toldMax = 1_000;

/** Whom a name that several carry belongs to. */
export function nameOwner(ids: readonly NodeId[]): NodeId | undefined {
  return ids.toSorted()[0];
}

export class NameConflicts {
  readonly #group: MembershipContext;
  readonly #reported = new BoundedLru<string, true>(toldMax);

  constructor(group: MembershipContext) {
    this.#group = group;
  }

  /** A member came to life: does somebody else carry its name? */
  check(member: Member): void {
    const { self, table } = this.#group;
    const { name } = member.entry;
    if (self.entry.name === name) this.#tell(member, self.id);
    for (const other of table.all()) {
      if (other.entry.name === name && other.id !== member.id && isLiveMember(other)) this.#tell(member, other.id);
    }
  }

  #tell(member: Member, other: NodeId): void {
    const { id, generation, incarnation, entry } = member;
    const pair = [id, other].toSorted().join();
    if (this.#reported.get(pair) !== undefined) return;
    this.#reported.set(pair, true);
    const why = `${id} and ${other} are both called ${entry.name}; ${nameOwner([id, other])} keeps the name`;
    const event = {
      type: 'member.conflict',
      id,
      name: entry.name,
      generation,
      incarnation,
      why,
      ...noEvidence,
    } as const;
    this.#group.outbox.put({ kind: 'event', event });
  }
}
