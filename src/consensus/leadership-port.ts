/** Implements the Leadership port for one group on this node and notifies its watchers. */
import type { Cancel } from '../base/ports.ts';
import type { Leadership, LeadershipEvents, LeadershipView } from '../base/registry.ts';
import type { LeadershipChange } from './state/effects.ts';

export class LeadershipPort implements Leadership {
  readonly #view: () => LeadershipView;
  readonly #isLeading: () => boolean;
  readonly #watchers = new Set<LeadershipEvents>();

  constructor(view: () => LeadershipView, isLeading: () => boolean) {
    this.#view = view;
    this.#isLeading = isLeading;
  }

  view(): LeadershipView {
    return this.#view();
  }

  isLeading(): boolean {
    return this.#isLeading();
  }

  watch(events: LeadershipEvents): Cancel {
    // A new object per call: watching twice with the same events makes two watches.
    const watcher = { ...events };
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  notify(change: LeadershipChange): void {
    for (const watcher of this.#watchers) {
      if (change.kind === 'elected') watcher.elected?.(change.fence);
      else if (change.kind === 'lost') watcher.lost?.(change.reason);
      else watcher.changed?.(this.#view());
    }
  }
}
