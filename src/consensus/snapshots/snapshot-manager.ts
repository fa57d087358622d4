/**
 * Takes and installs snapshots and compacts the log behind them. The head record is written only after every part is
 * durable.
 */
import { assert } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { LogEntry } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { BackgroundWrites } from './background-writes.ts';
import { logEntriesBeforeSnapshotMax } from '../state/options.ts';
import type { Snapshot } from '../state/snapshot.ts';
import { ChunkedBytesBuilder } from '../state/snapshot.ts';
import { snapshotHeadWrite, snapshotPartWrites } from '../state/storage-format.ts';

/** Approximate memory of an entry besides its bytes. */
const entryBytes = 128;

/** A snapshot that is being captured. */
type SnapshotInProgress = Omit<Snapshot, 'state'> & { readonly builder: ChunkedBytesBuilder };

export class SnapshotManager {
  readonly #state: ConsensusState;
  readonly #background: BackgroundWrites;
  #inProgress: SnapshotInProgress | undefined;
  /** Since the start of the last snapshot. */
  #appliedBytes = 0;
  #lastNumber: number;

  constructor(state: ConsensusState, obsoleteKeys: readonly string[]) {
    this.#state = state;
    this.#background = new BackgroundWrites(state);
    this.#lastNumber = state.snapshot.number;
    this.#background.delete(obsoleteKeys.length, (i) => obsoleteKeys[i] as string);
  }

  durable(): void {
    this.#background.next();
  }

  applied(entries: readonly LogEntry[]): void {
    for (const { encoded } of entries) this.#appliedBytes += encoded.length + entryBytes;
  }

  /** Starts to capture the state, if a snapshot is due. */
  startIfDue(): void {
    if (this.#inProgress !== undefined || this.#background.isBusy || !this.#isDue()) return;
    const { appliedIndex: index, log, members, outbox, options } = this.#state;
    const term = log.termAt(index);
    assert(term !== undefined, 'the last applied entry is in the log');
    const number = ++this.#lastNumber;
    const builder = new ChunkedBytesBuilder(options.snapshotPartBytes);
    this.#inProgress = { number, index, term, members: members.at(index), builder };
    this.#appliedBytes = 0;
    outbox.put({ kind: 'captureSnapshot', number, index, immediate: true });
  }

  #isDue(): boolean {
    const { options, appliedIndex, snapshot } = this.#state;
    const entries = appliedIndex - snapshot.index;
    if (entries < options.snapshotEntriesMax && this.#appliedBytes < options.snapshotLogBytes) return false;
    // A large state is written rarely: otherwise it would cost more than the entries it replaces.
    return this.#appliedBytes >= snapshot.state.length || entries >= logEntriesBeforeSnapshotMax(options);
  }

  /** The next part of the state; undefined after the last one. `keepFrom`: entries after this index are still needed. */
  onPart(number: number, part: Uint8Array | undefined, keepFrom: () => number): void {
    const snapshotInProgress = this.#inProgress;
    if (snapshotInProgress?.number !== number) return;
    const { builder } = snapshotInProgress;
    const before = builder.chunks.length;
    if (part === undefined) return this.#complete(snapshotInProgress, keepFrom);
    builder.add(part);
    assert(builder.length <= this.#state.options.snapshotBytesMax, 'the state of the state machine exceeds its bound');
    const requestNext = (): readonly StoreWrite[] => {
      if (this.#inProgress === snapshotInProgress) this.#state.outbox.put({ kind: 'captureNextPart', immediate: true });
      return [];
    };
    if (builder.chunks.length === before) requestNext();
    else this.#background.add(() => this.#partWrites(snapshotInProgress, before), requestNext);
  }

  #complete(snapshotInProgress: SnapshotInProgress, keepFrom: () => number): void {
    const { builder, ...about } = snapshotInProgress;
    const { index } = about;
    const written = builder.chunks.length;
    const snapshot: Snapshot = { ...about, state: builder.finish() };
    const finish = (): readonly StoreWrite[] => {
      if (this.#inProgress !== snapshotInProgress) return [];
      this.#inProgress = undefined;
      const why = `a snapshot of ${snapshot.state.length} bytes replaces the log up to ${index}`;
      this.#state.emitEvent('snapshot.taken', why, { index });
      return this.#compactBehind(snapshot, Math.min(index - this.#state.options.tailEntriesMax, keepFrom()));
    };
    this.#background.add(() => this.#partWrites(snapshotInProgress, written), finish);
  }

  #partWrites(snapshotInProgress: SnapshotInProgress, from: number): readonly StoreWrite[] {
    if (this.#inProgress !== snapshotInProgress) return [];
    return snapshotPartWrites(
      this.#state.keys,
      snapshotInProgress.number,
      snapshotInProgress.builder.chunks.slice(from),
      from,
    );
  }

  /** Deletes the parts written so far, after all writes that are queued. */
  #cancel(): void {
    const snapshotInProgress = this.#inProgress;
    if (snapshotInProgress === undefined) return;
    this.#inProgress = undefined;
    this.#state.outbox.put({ kind: 'dropCapture', immediate: true });
    this.#deleteParts(snapshotInProgress.number, snapshotInProgress.builder.chunks.length);
  }

  /** Installs a snapshot of the leader. Calls back when it has replaced the log; its write is in flight then. */
  install(received: Omit<Snapshot, 'number'>, from: NodeId, installed: () => void): void {
    const { outbox, keys } = this.#state;
    const snapshot = { ...received, number: ++this.#lastNumber };
    const { number, state } = snapshot;
    // The state machine reads each part while it is written; all parts take effect at once at the end.
    const steps = state.chunks.map((part, i) => () => {
      outbox.put({ kind: 'restorePart', part, immediate: true });
      return snapshotPartWrites(keys, number, [part], i);
    });
    this.#background.add(...steps, () => {
      const writes = this.#activate(snapshot, from);
      installed();
      return writes;
    });
  }

  #activate(snapshot: Snapshot, from: NodeId): readonly StoreWrite[] {
    const state = this.#state;
    const { index } = snapshot;
    if (index <= state.commitIndex) {
      state.outbox.put({ kind: 'dropRestore', immediate: true });
      this.#deleteParts(snapshot.number, snapshot.state.chunks.length);
      return [];
    }
    this.#cancel();
    const writes = this.#replaceLog(snapshot);
    this.#appliedBytes = 0;
    state.commitIndex = index;
    state.appliedIndex = index;
    state.outbox.put({ kind: 'finishRestore', index, immediate: true });
    const why = `the leader sent a snapshot of ${snapshot.state.length} bytes`;
    state.emitEvent('snapshot.installed', why, { index, leader: from });
    return writes;
  }

  /** Head and compaction are one write; obsolete keys are deleted after it. */
  #compactBehind(snapshot: Snapshot, compactTo: number): readonly StoreWrite[] {
    const state = this.#state;
    const { log, keys } = state;
    const old = { snapshot: state.snapshot, base: log.base.index };
    state.snapshot = snapshot;
    state.members.compact(snapshot.index);
    log.compact(Math.max(old.base, compactTo));
    this.#deleteObsolete(old.snapshot, old.base, log.base.index);
    return [snapshotHeadWrite(keys, snapshot, log.base)];
  }

  #replaceLog(snapshot: Snapshot): readonly StoreWrite[] {
    const state = this.#state;
    const { log, keys, members } = state;
    const old = { snapshot: state.snapshot, base: log.base.index, last: log.lastIndex };
    const matches = log.termAt(snapshot.index) === snapshot.term;
    state.snapshot = snapshot;
    if (matches) {
      log.compact(snapshot.index);
      members.compact(snapshot.index);
    } else {
      // Entries after the snapshot conflict with it and must not survive a restart.
      log.reset({ index: snapshot.index, term: snapshot.term });
      members.reset(snapshot);
      state.durability.truncated(snapshot.index);
    }
    this.#deleteObsolete(old.snapshot, old.base, Math.min(snapshot.index, old.last));
    const behind = matches ? [] : numbers(snapshot.index, old.last).map((i) => ({ key: keys.entry(i), value: null }));
    return [snapshotHeadWrite(keys, snapshot, log.base), ...behind];
  }

  #deleteObsolete(old: Snapshot, fromIndex: number, toIndex: number): void {
    const { keys } = this.#state;
    this.#deleteParts(old.number, old.state.chunks.length);
    this.#background.delete(toIndex - fromIndex, (i) => keys.entry(fromIndex + 1 + i));
  }

  #deleteParts(number: number, count: number): void {
    const { keys } = this.#state;
    this.#background.delete(count, (part) => keys.part(number, part));
  }
}

/** The indexes in (after, upTo]. */
function numbers(after: number, upTo: number): number[] {
  return Array.from({ length: Math.max(0, upTo - after) }, (_, i) => after + 1 + i);
}
