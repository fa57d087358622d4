/** Fake `Leadership` of one node: the test elects and deposes it, or leaves it unaware that another node leads. */
import type { Fence } from '../../src/base/fence.ts';
import type { NodeId } from '../../src/base/ids.ts';
import type { Cancel } from '../../src/base/ports.ts';
import type { Leadership, LeadershipEvents } from '../../src/base/registry.ts';

export class FakeLeadership implements Leadership {
  readonly #self: NodeId;
  #fence: Fence | undefined;
  readonly #watchers = new Set<LeadershipEvents>();

  constructor(self: NodeId) {
    this.#self = self;
  }

  become(fence: Fence): void {
    this.#fence = fence;
    for (const watcher of this.#watchers) watcher.elected?.(fence);
  }

  lose(): void {
    if (this.#fence === undefined) return;
    this.#fence = undefined;
    for (const watcher of this.#watchers) watcher.lost?.('deposed by the test');
  }

  view(): ReturnType<Leadership['view']> {
    return { leader: this.#fence && this.#self, term: 0, fence: this.#fence };
  }

  isLeading(): boolean {
    return this.#fence !== undefined;
  }

  watch(events: LeadershipEvents): Cancel {
    this.#watchers.add(events);
    return () => this.#watchers.delete(events);
  }
}
