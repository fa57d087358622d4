/**
 * Hands what is agreed to the replica, in order and each entry once; a long log in slices, so that it does not hold up
 * heartbeats.
 */
import { Alarm } from './alarm.ts';
import type { GroupState } from './group-state.ts';
import type { Timer } from './outbox.ts';
import type { Proposals } from './proposals.ts';
import type { Snapshots } from './snapshots.ts';

const entriesMax = 2_048;

export class Applier {
  readonly #state: GroupState;
  readonly #snapshots: Snapshots;
  readonly #alarm: Alarm;

  constructor(state: GroupState, snapshots: Snapshots) {
    this.#state = state;
    this.#snapshots = snapshots;
    this.#alarm = new Alarm(state.out, 'apply');
  }

  settle(proposals: Proposals | undefined): void {
    const state = this.#state;
    const { log, commitIndex, appliedIndex, out } = state;
    // Only the alarm goes on: whoever asks something while a slice is being applied must not be overtaken by the next.
    if (appliedIndex >= commitIndex || this.#alarm.dueMs !== undefined) return;
    const entries = log.slice(appliedIndex + 1, Infinity, Math.min(entriesMax, commitIndex - appliedIndex));
    state.appliedIndex = appliedIndex + entries.length;
    this.#snapshots.applied(entries);
    proposals?.applied(entries);
    out.put({ kind: 'apply', entries, ahead: true });
    for (const { kind, index } of entries) {
      if (kind === 'members') state.tell('group.changed', 'its members were changed', { index });
    }
    if (state.appliedIndex < commitIndex) this.#alarm.set(out.nowMs);
  }

  /** The end of the step goes on with the next slice. */
  expired(timer: Timer): void {
    this.#alarm.expired(timer);
  }
}
