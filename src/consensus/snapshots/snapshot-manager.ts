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
import { ChunkedBytesBuilder } from '../state/state-bytes.ts';
import { snapshotHeadWrite, snapshotPartWrites } from '../state/storage-format.ts';

/** What an entry takes in memory beside its bytes, about. */
const entryBytes = 128;

/** A snapshot of which not all parts have come yet. */
type SnapshotInProgress = Omit<Snapshot, 'state'> & { readonly builder: ChunkedBytesBuilder };

export class SnapshotManager {
  readonly #state: ConsensusState;
  readonly #housekeeping: BackgroundWrites;
  #taking: SnapshotInProgress | undefined;
  /** Since the last one was begun. */
  #appliedBytes = 0;
  #lastNumber: number;

  constructor(state: ConsensusState, leftovers: readonly string[]) {
    this.#state = state;
    this.#housekeeping = new BackgroundWrites(state);
    this.#lastNumber = state.snapshot.number;
    this.#housekeeping.delete(leftovers.length, (i) => leftovers[i] as string);
  }

  durable(): void {
    this.#housekeeping.next();
  }

  applied(entries: readonly LogEntry[]): void {
    for (const { encoded } of entries) this.#appliedBytes += encoded.length + entryBytes;
  }

  /** Asks the replica for its state, if it is time. */
  startIfDue(): void {
    if (this.#taking !== undefined || this.#housekeeping.isBusy || !this.#isTime()) return;
    const { appliedIndex: index, log, members, outbox, options } = this.#state;
    const term = log.termAt(index);
    assert(term !== undefined, 'what was applied last is in the log');
    const number = ++this.#lastNumber;
    const builder = new ChunkedBytesBuilder(options.snapshotPartBytes);
    this.#taking = { number, index, term, members: members.at(index), builder };
    this.#appliedBytes = 0;
    outbox.put({ kind: 'takeSnapshot', number, index, immediate: true });
  }

  #isTime(): boolean {
    const { options, appliedIndex, snapshot } = this.#state;
    const entries = appliedIndex - snapshot.index;
    if (entries < options.snapshotEntriesMax && this.#appliedBytes < options.snapshotLogBytes) return false;
    // A large state is written rarely, or it would cost more than the entries it stands for.
    return this.#appliedBytes >= snapshot.state.length || entries >= logEntriesBeforeSnapshotMax(options);
  }

  /** The next part of the state; undefined behind the last one. `keepFrom`: somebody needs the entries behind this one. */
  onPart(number: number, part: Uint8Array | undefined, keepFrom: () => number): void {
    const taking = this.#taking;
    if (taking?.number !== number) return;
    const { builder } = taking;
    const before = builder.chunks.length;
    if (part === undefined) return this.#complete(taking, keepFrom);
    builder.add(part);
    assert(builder.length <= this.#state.options.snapshotBytesMax, 'the state of the replica exceeds its bound');
    const ask = (): readonly StoreWrite[] => {
      if (this.#taking === taking) this.#state.outbox.put({ kind: 'nextPart', immediate: true });
      return [];
    };
    if (builder.chunks.length === before) ask();
    else this.#housekeeping.add(() => this.#partWrites(taking, before), ask);
  }

  #complete(taking: SnapshotInProgress, keepFrom: () => number): void {
    const { builder, ...about } = taking;
    const { index } = about;
    const written = builder.chunks.length;
    const snapshot: Snapshot = { ...about, state: builder.finish() };
    const finish = (): readonly StoreWrite[] => {
      if (this.#taking !== taking) return [];
      this.#taking = undefined;
      const why = `${snapshot.state.length} bytes of state stand for the log up to ${index}`;
      this.#state.emitEvent('snapshot.taken', why, { index });
      return this.#compactBehind(snapshot, Math.min(index - this.#state.options.tailEntriesMax, keepFrom()));
    };
    this.#housekeeping.add(() => this.#partWrites(taking, written), finish);
  }

  #partWrites(taking: SnapshotInProgress, from: number): readonly StoreWrite[] {
    if (this.#taking !== taking) return [];
    return snapshotPartWrites(this.#state.keys, taking.number, taking.builder.chunks.slice(from), from);
  }

  /** What was written of it is deleted behind all that is still to be written. */
  #abandon(): void {
    const taking = this.#taking;
    if (taking === undefined) return;
    this.#taking = undefined;
    this.#state.outbox.put({ kind: 'dropSnapshot', immediate: true });
    this.#deleteParts(taking.number, taking.builder.chunks.length);
  }

  /** A state that came from the leader. Calls back when it has taken the place of the log; its write is under way then. */
  install(received: Omit<Snapshot, 'number'>, from: NodeId, installed: () => void): void {
    const { outbox, keys } = this.#state;
    const snapshot = { ...received, number: ++this.#lastNumber };
    const { number, state } = snapshot;
    // The replica reads each part while the disk has to do with it; what it has read counts at the end, and at once.
    const steps = state.chunks.map((part, i) => () => {
      outbox.put({ kind: 'restorePart', part, immediate: true });
      return snapshotPartWrites(keys, number, [part], i);
    });
    this.#housekeeping.add(...steps, () => {
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
    this.#abandon();
    const writes = this.#replaceLog(snapshot);
    this.#appliedBytes = 0;
    state.commitIndex = index;
    state.appliedIndex = index;
    state.outbox.put({ kind: 'restore', index, immediate: true });
    const why = `${snapshot.state.length} bytes of state came from the leader`;
    state.emitEvent('snapshot.installed', why, { index, leader: from });
    return writes;
  }

  /** The head and the cut of the log are one write; what is no longer needed is deleted after it. */
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
    const agrees = log.termAt(snapshot.index) === snapshot.term;
    state.snapshot = snapshot;
    if (agrees) {
      log.compact(snapshot.index);
      members.compact(snapshot.index);
    } else {
      // What lies behind the snapshot contradicts it and must not be found by a restart.
      log.reset({ index: snapshot.index, term: snapshot.term });
      members.reset(snapshot);
      state.durability.truncated(snapshot.index);
    }
    this.#deleteObsolete(old.snapshot, old.base, Math.min(snapshot.index, old.last));
    const behind = agrees ? [] : numbers(snapshot.index, old.last).map((i) => ({ key: keys.entry(i), value: null }));
    return [snapshotHeadWrite(keys, snapshot, log.base), ...behind];
  }

  #deleteObsolete(old: Snapshot, fromIndex: number, toIndex: number): void {
    const { keys } = this.#state;
    this.#deleteParts(old.number, old.state.chunks.length);
    this.#housekeeping.delete(toIndex - fromIndex, (i) => keys.entry(fromIndex + 1 + i));
  }

  #deleteParts(number: number, count: number): void {
    const { keys } = this.#state;
    this.#housekeeping.delete(count, (part) => keys.part(number, part));
  }
}

/** Those in (after, upTo]. */
function numbers(after: number, upTo: number): number[] {
  return Array.from({ length: Math.max(0, upTo - after) }, (_, i) => after + 1 + i);
}
