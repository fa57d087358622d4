/** Applies committed entries in order, each once, in slices so that heartbeats are not delayed. */
import { RearmableTimer } from '../state/rearmable-timer.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { ConsensusTimer } from '../state/effects.ts';
import type { ProposalQueue } from './proposal-queue.ts';
import type { SnapshotManager } from '../snapshots/snapshot-manager.ts';

const entriesMax = 2_048;

export class LogApplier {
  readonly #state: ConsensusState;
  readonly #snapshots: SnapshotManager;
  readonly #alarm: RearmableTimer;

  constructor(state: ConsensusState, snapshots: SnapshotManager) {
    this.#state = state;
    this.#snapshots = snapshots;
    this.#alarm = new RearmableTimer(state.outbox, 'apply');
  }

  applyCommitted(proposals: ProposalQueue | undefined): void {
    const state = this.#state;
    const { log, commitIndex, appliedIndex, outbox } = state;
    // Only the alarm goes on: whoever asks something while a slice is being applied must not be overtaken by the next.
    if (appliedIndex >= commitIndex || this.#alarm.dueMs !== undefined) return;
    const entries = log.slice(appliedIndex + 1, Infinity, Math.min(entriesMax, commitIndex - appliedIndex));
    state.appliedIndex = appliedIndex + entries.length;
    this.#snapshots.applied(entries);
    proposals?.applied(entries);
    outbox.put({ kind: 'apply', entries, immediate: true });
    for (const { kind, index } of entries) {
      if (kind === 'members') state.emitEvent('group.changed', 'its members were changed', { index });
    }
    if (state.appliedIndex < commitIndex) this.#alarm.set(outbox.nowMs);
  }

  /** The end of the step goes on with the next slice. */
  onExpired(timer: ConsensusTimer): void {
    this.#alarm.onExpired(timer);
  }
}
