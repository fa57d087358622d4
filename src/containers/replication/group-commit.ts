/**
 * Group commit for all containers of one store: writes that arrive during a write share the next sync. A container has
 * at most one pending write, so writes can be combined freely. A failed group is written again one by one, so that one
 * bad write fails alone.
 */
import { type Done, failure } from '../../base/errors.ts';
import type { Clock, RowStore, StoreRows, StoreWrite } from '../../base/ports.ts';

export type RowBatch = readonly (StoreWrite | StoreRows)[];

type PendingWrite = { readonly writes: RowBatch; readonly bytes: number; readonly done: Done<void> };

/** Half of what a store takes in one batch: one write may be as large as the largest commit. */
const groupBytesMax = 16 * 2 ** 20;
const pendingMax = 100_000;

export class GroupCommit {
  readonly #store: Pick<RowStore, 'write'>;
  readonly #clock: Pick<Clock, 'schedule'>;
  #waiting: PendingWrite[] = [];
  #beforeWrite: (() => void)[] = [];
  #isBusy = false;
  #isScheduled = false;

  constructor(store: Pick<RowStore, 'write'>, clock: Pick<Clock, 'schedule'>) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Calls `run` just before the next group is taken; what it writes joins that group. Once per container at a time. */
  beforeWrite(run: () => void): void {
    this.#beforeWrite.push(run);
    this.#flushSoon();
  }

  /** Atomic; durable when done. */
  write(writes: RowBatch, bytes: number, done: Done<void>): void {
    if (this.#waiting.length >= pendingMax) {
      this.#clock.schedule(0, () => done(failure('CAPACITY', `more than ${pendingMax} writes wait for the disk`)));
      return;
    }
    this.#waiting.push({ writes, bytes, done });
    this.#flushSoon();
  }

  /** Starts the next group now: no more writes come in this turn. */
  flush(): void {
    if (this.#isBusy) return;
    this.#runBeforeWrite();
    if (this.#waiting.length === 0) return;
    const group = this.#takeGroup();
    this.#isBusy = true;
    const [only] = group;
    const writes = only !== undefined && group.length === 1 ? only.writes : group.flatMap((member) => member.writes);
    this.#store.write(writes, (outcome) => {
      if (outcome.ok || group.length === 1) this.#complete(() => group.forEach(({ done }) => done(outcome)));
      else this.#writeOneByOne(group, 0);
    });
  }

  /** In the next turn: containers whose write has just ended add their next one in this turn. */
  #flushSoon(): void {
    if (this.#isBusy || this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      this.flush();
    });
  }

  #runBeforeWrite(): void {
    const callbacks = this.#beforeWrite;
    this.#beforeWrite = [];
    for (const run of callbacks) run();
  }

  #takeGroup(): PendingWrite[] {
    let bytes = 0;
    let count = 0;
    for (const write of this.#waiting) {
      bytes += write.bytes;
      if (count > 0 && bytes > groupBytesMax) break;
      count += 1;
    }
    if (count < this.#waiting.length) return this.#waiting.splice(0, count);
    const all = this.#waiting;
    this.#waiting = [];
    return all;
  }

  #writeOneByOne(group: readonly PendingWrite[], at: number): void {
    const member = group[at];
    if (member === undefined) return this.#complete(() => {});
    this.#store.write(member.writes, (outcome) => {
      member.done(outcome);
      this.#writeOneByOne(group, at + 1);
    });
  }

  /**
   * Keeps the disk busy: the next group starts as soon as the containers of this one have added their next writes. The
   * flush is scheduled before the report, so the commits for replicas leave together with the acknowledgements.
   */
  #complete(report: () => void): void {
    this.#isBusy = false;
    this.#flushSoon();
    report();
  }
}
