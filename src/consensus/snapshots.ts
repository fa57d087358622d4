/**
 * Keeps the log short. When enough has been applied since the last snapshot, the replica is asked for its state; its
 * parts are written, then the head that makes them count, and only then the log before it is let go of, except for a
 * tail for those who lag. The same way a state that came from the leader takes the place of the log.
 */
import { assert } from '../base/assert.ts';
import type { NodeId } from '../base/ids.ts';
import type { StoreWrite } from '../base/ports.ts';
import type { Entry } from './entry.ts';
import type { GroupState } from './group-state.ts';
import { Housekeeping } from './housekeeping.ts';
import { type Snapshot, snapshotOf } from './snapshot.ts';
import { headWrite, partCount, partWrite } from './stored.ts';

export class Snapshots {
  readonly #state: GroupState;
  readonly #housekeeping: Housekeeping;
  /** The state is being asked for or written. */
  #busy = false;
  #appliedBytes = 0;
  #lastNumber: number;

  constructor(state: GroupState, leftovers: readonly string[]) {
    this.#state = state;
    this.#housekeeping = new Housekeeping(state);
    this.#lastNumber = state.snapshot.number;
    this.#housekeeping.delete(leftovers);
  }

  durable(): void {
    this.#housekeeping.next();
  }

  applied(entries: readonly Entry[]): void {
    for (const { record } of entries) this.#appliedBytes += record.length;
  }

  /** Asks the replica for its state, if it is time. */
  settle(): void {
    const { options, appliedIndex, snapshot, out } = this.#state;
    const entries = appliedIndex - snapshot.index;
    // A large state is written rarely, or it would cost more than the entries it stands for.
    const bytesMax = Math.max(options.snapshotLogBytes, snapshot.state.length);
    if (this.#busy || this.#housekeeping.isBusy || entries === 0) return;
    if (entries < options.snapshotEntriesMax && this.#appliedBytes < bytesMax) return;
    this.#busy = true;
    this.#appliedBytes = 0;
    out.put({ kind: 'takeSnapshot', index: appliedIndex, ahead: true });
  }

  /** `keepFrom`: somebody still needs the entries behind this one. */
  taken(index: number, bytes: Uint8Array, keepFrom: () => number): void {
    const { log, members, options } = this.#state;
    assert(bytes.length <= options.snapshotBytesMax, 'the state of the replica exceeds its bound');
    const term = log.termAt(index);
    // Meanwhile a state from the leader may have taken its place.
    if (term === undefined || index <= this.#state.snapshot.index) return void (this.#busy = false);
    const snapshot = snapshotOf(++this.#lastNumber, { index, term }, members.at(index), bytes);
    this.#write(snapshot, () => {
      this.#busy = false;
      // A state that came meanwhile and counts already is newer.
      if (snapshot.index <= this.#state.snapshot.index) return this.#deletion(snapshot);
      this.#state.tell('snapshot.taken', `${bytes.length} bytes of state stand for the log up to ${index}`, { index });
      return this.#adopt(snapshot, Math.min(index - options.tailEntriesMax, keepFrom()));
    });
  }

  /** A state that came from the leader. Calls back when it has taken the place of the log; its write is under way then. */
  install(received: Omit<Snapshot, 'number'>, from: NodeId, installed: () => void): void {
    const snapshot = { ...received, number: ++this.#lastNumber };
    this.#write(snapshot, () => {
      const state = this.#state;
      if (snapshot.index <= state.commitIndex) {
        installed();
        return this.#deletion(snapshot);
      }
      const writes = this.#replaceLog(snapshot);
      this.#appliedBytes = 0;
      state.commitIndex = snapshot.index;
      state.appliedIndex = snapshot.index;
      state.out.put({ kind: 'restore', state: snapshot.state, ahead: true });
      const why = `${snapshot.state.length} bytes of state came from the leader`;
      state.tell('snapshot.installed', why, { index: snapshot.index, leader: from });
      installed();
      return writes;
    });
  }

  #write(snapshot: Snapshot, finish: () => readonly StoreWrite[]): void {
    const { keys } = this.#state;
    const steps = Array.from({ length: partCount(snapshot.state.length) }, (_, part) => () => [
      partWrite(keys, snapshot, part),
    ]);
    this.#housekeeping.add(...steps, finish);
  }

  /** The head and the cut of the log are one write; what is no longer needed is deleted after it. */
  #adopt(snapshot: Snapshot, compactTo: number): readonly StoreWrite[] {
    const state = this.#state;
    const { log, keys } = state;
    const old = { snapshot: state.snapshot, base: log.base.index };
    state.snapshot = snapshot;
    state.members.compact(snapshot.index);
    log.compact(Math.max(old.base, compactTo));
    this.#forget(old.snapshot, old.base, log.base.index);
    return [headWrite(keys, snapshot, log.base)];
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
    this.#forget(old.snapshot, old.base, Math.min(snapshot.index, old.last));
    const behind = agrees ? [] : numbers(snapshot.index, old.last).map((i) => ({ key: keys.entry(i), value: null }));
    return [headWrite(keys, snapshot, log.base), ...behind];
  }

  #forget(old: Snapshot, fromIndex: number, toIndex: number): void {
    const { keys } = this.#state;
    const entries = numbers(fromIndex, toIndex).map((index) => keys.entry(index));
    this.#housekeeping.delete([...this.#partKeys(old), ...entries]);
  }

  #deletion(snapshot: Snapshot): readonly StoreWrite[] {
    return this.#partKeys(snapshot).map((key) => ({ key, value: null }));
  }

  #partKeys({ number, state }: Snapshot): readonly string[] {
    return Array.from({ length: partCount(state.length) }, (_, part) => this.#state.keys.part(number, part));
  }
}

/** Those in (after, upTo]. */
function numbers(after: number, upTo: number): number[] {
  return Array.from({ length: Math.max(0, upTo - after) }, (_, i) => after + 1 + i);
}
