/** Members by id and by name, rebuilt after a change and from time to time. Knows no more than membership. */
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';

type Index = {
  readonly atMs: number;
  readonly byId: ReadonlyMap<NodeId, MemberView>;
  readonly byName: ReadonlyMap<string, MemberView>;
};

/** News may come before the list that it is about, so an index does not stay for ever. */
const freshMs = 500;

export class MemberIndex {
  readonly #clock: Clock;
  readonly #views: () => readonly MemberView[];
  #index: Index | undefined;

  constructor(clock: Clock, views: () => readonly MemberView[]) {
    this.#clock = clock;
    this.#views = views;
  }

  /** Something about a member is not what it was. */
  invalidate(): void {
    this.#index = undefined;
  }

  get(id: NodeId, nowMs: number = this.#clock.nowMs()): MemberView | undefined {
    return this.#fresh(nowMs).byId.get(id);
  }

  /** Of several with one name, the living one. */
  byName(name: string): MemberView | undefined {
    return this.#fresh(this.#clock.nowMs()).byName.get(name);
  }

  #fresh(atMs: number): Index {
    if (this.#index !== undefined && atMs - this.#index.atMs < freshMs) return this.#index;
    const views = this.#views();
    const livingLast = views.toSorted((a, b) => Number(a.state === 'alive') - Number(b.state === 'alive'));
    this.#index = {
      atMs,
      byId: new Map(views.map((view) => [view.entry.id, view])),
      byName: new Map(livingLast.map((view) => [view.entry.name, view])),
    };
    return this.#index;
  }
}
