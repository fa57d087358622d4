/**
 * Reports two live members with one name, once per pair. Every node resolves the name to the lowest id; both stay
 * members, because membership is by id.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';
import type { MembershipContext } from '../state/context.ts';
import { type Member, isLiveMember } from '../state/member-table.ts';
import { noEvidence } from '../state/membership-event.ts';

const reportedMax = 1_000;

/** The member that keeps a name that several have. */
export function nameOwner(ids: readonly NodeId[]): NodeId | undefined {
  return ids.toSorted()[0];
}

export class NameConflicts {
  readonly #context: MembershipContext;
  readonly #reported = new BoundedLru<string, true>(reportedMax);

  constructor(context: MembershipContext) {
    this.#context = context;
  }

  /** Checks the name of a member that has become alive. */
  check(member: Member): void {
    const { self, table } = this.#context;
    const { name } = member.entry;
    if (self.entry.name === name) this.#report(member, self.id);
    for (const other of table.all()) {
      if (other.entry.name === name && other.id !== member.id && isLiveMember(other)) this.#report(member, other.id);
    }
  }

  #report(member: Member, other: NodeId): void {
    const { id, generation, incarnation, entry } = member;
    const pair = [id, other].toSorted().join();
    if (this.#reported.get(pair) !== undefined) return;
    this.#reported.set(pair, true);
    const why = `${id} and ${other} are both named ${entry.name}; ${nameOwner([id, other])} keeps the name`;
    const event = {
      type: 'member.conflict',
      id,
      name: entry.name,
      generation,
      incarnation,
      why,
      ...noEvidence,
    } as const;
    this.#context.outbox.push({ kind: 'event', event });
  }
}
