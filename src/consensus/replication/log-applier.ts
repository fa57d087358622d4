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
  readonly #nextSlice: RearmableTimer;

  constructor(state: ConsensusState, snapshots: SnapshotManager) {
    this.#state = state;
    this.#snapshots = snapshots;
    this.#nextSlice = new RearmableTimer(state.outbox, 'apply');
  }

  applyCommitted(proposals: ProposalQueue | undefined): void {
    const state = this.#state;
    const { log, commitIndex, appliedIndex, outbox } = state;
    // The next slice starts only with the timer, so that inputs that arrive during a slice are handled before it.
    if (appliedIndex >= commitIndex || this.#nextSlice.dueMs !== undefined) return;
    const entries = log.slice(appliedIndex + 1, Infinity, Math.min(entriesMax, commitIndex - appliedIndex));
    state.appliedIndex = appliedIndex + entries.length;
    this.#snapshots.applied(entries);
    proposals?.applied(entries);
    outbox.put({ kind: 'apply', entries, immediate: true });
    for (const { kind, index } of entries) {
      if (kind === 'configuration') state.emitEvent('group.changed', 'the configuration was changed', { index });
    }
    if (state.appliedIndex < commitIndex) this.#nextSlice.set(outbox.nowMs);
  }

  /** The end of this step applies the next slice. */
  onExpired(timer: ConsensusTimer): void {
    this.#nextSlice.onExpired(timer);
  }
}
