/**
 * Which entries ride along on a greeting, so that all learn of all. What is new is told to several peers first; after
 * that one entry at a time goes round for ever, which repairs whatever loss has left out. Only members that were heard
 * by this node are passed on: hearsay does not breed hearsay, and the dead are not talked back to life.
 */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import type { MemberTable } from './member-table.ts';
import type { Member } from './member.ts';

export class News {
  readonly #table: MemberTable;
  readonly #entriesMax: number;
  /** How often each new entry was told. Never larger than the table. */
  readonly #told = new Map<NodeId, number>();
  #turn: Iterator<Member>;

  constructor(table: MemberTable, entriesMax: number) {
    this.#table = table;
    this.#entriesMax = entriesMax;
    this.#turn = table.values();
  }

  add(id: NodeId): void {
    this.#told.set(id, 0);
  }

  /** What to tell in a greeting: what is new, or else the next entry in turn. */
  forHello(to: NodeId): Identity[] {
    const fresh = this.forAnswer(to);
    return fresh.length > 0 ? fresh : this.#next(to);
  }

  /** What to tell in an answer: only what is new, so that quiet times are cheap. `to` knows itself. */
  forAnswer(to: NodeId): Identity[] {
    const picked: Identity[] = [];
    const enough = 2 + 2 * Math.ceil(Math.log2(this.#table.size + 1));
    for (const [id, count] of this.#told) {
      if (picked.length === this.#entriesMax) break;
      const member = this.#table.get(id);
      if (member?.state !== 'alive' || count >= enough) this.#told.delete(id);
      else if (id !== to) {
        picked.push(member.entry);
        this.#told.set(id, count + 1);
      }
    }
    return picked;
  }

  #next(to: NodeId): Identity[] {
    let { value: member, done } = this.#turn.next();
    if (done === true) {
      this.#turn = this.#table.values();
      ({ value: member, done } = this.#turn.next());
    }
    if (done === true || member === undefined || member.state !== 'alive' || member.entry.id === to) return [];
    return [member.entry];
  }
}
