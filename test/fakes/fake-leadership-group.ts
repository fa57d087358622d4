/** Fake `Leadership` of several nodes: the test appoints the leader, and each change raises the term. */
import { type Fence, fenceOf } from '../../src/base/fence.ts';
import type { Leadership, LeadershipEvents, LeadershipView } from '../../src/base/registry.ts';

export class FakeLeadershipGroup {
  readonly #watchers = new Set<{ readonly self: string; readonly events: LeadershipEvents }>();
  leader: string | undefined;
  term = 1;

  elect(leader: string | undefined): void {
    const before = this.leader;
    this.leader = leader;
    if (leader !== undefined) this.term += 1;
    for (const { self, events } of [...this.#watchers]) {
      if (self === before) events.lost?.('another node leads');
      events.changed?.(this.#view());
      if (self === leader) events.elected?.(fenceOf(this.term, 1));
    }
  }

  of(self: string): Leadership {
    return {
      view: () => this.#view(),
      isLeading: () => this.leader === self,
      watch: (events) => {
        const watcher = { self, events };
        this.#watchers.add(watcher);
        return () => this.#watchers.delete(watcher);
      },
    };
  }

  #view(): LeadershipView {
    const fence: Fence | undefined = this.leader === undefined ? undefined : fenceOf(this.term, 1);
    return { leader: undefined, term: this.term, fence };
  }
}
