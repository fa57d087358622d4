/** Members by id and by name, rebuilt after a change and after a maximum age. Has no knowledge besides membership. */
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import type { MemberView } from '../../membership/state/member-view.ts';

type Index = {
  readonly atMs: number;
  readonly byId: ReadonlyMap<NodeId, MemberView>;
  readonly byName: ReadonlyMap<string, MemberView>;
};

/** An event may arrive before the member list that contains its change, so an index also expires. */
const ageMsMax = 500;

export class MemberIndex {
  readonly #clock: Clock;
  readonly #views: () => readonly MemberView[];
  #index: Index | undefined;

  constructor(clock: Clock, views: () => readonly MemberView[]) {
    this.#clock = clock;
    this.#views = views;
  }

  /** The state of a member has changed. */
  invalidate(): void {
    this.#index = undefined;
  }

  get(id: NodeId, nowMs: number = this.#clock.nowMs()): MemberView | undefined {
    return this.#current(nowMs).byId.get(id);
  }

  /** Of several members with the same name, the living one. */
  byName(name: string): MemberView | undefined {
    return this.#current(this.#clock.nowMs()).byName.get(name);
  }

  #current(atMs: number): Index {
    if (this.#index !== undefined && atMs - this.#index.atMs < ageMsMax) return this.#index;
    const views = this.#views();
    const aliveLast = views.toSorted((a, b) => Number(a.state === 'alive') - Number(b.state === 'alive'));
    this.#index = {
      atMs,
      byId: new Map(views.map((view) => [view.entry.id, view])),
      byName: new Map(aliveLast.map((view) => [view.entry.name, view])),
    };
    return this.#index;
  }
}
