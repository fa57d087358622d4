/**
 * Up to which index and term the disk is safe. Entries that were truncated meanwhile do not count when their write
 * returns.
 */
import { assert } from '../../base/assert.ts';

type PendingWrite = { index: number; readonly term: number };

export class DurabilityTracker {
  readonly #pending: PendingWrite[] = [];
  #index: number;
  #term: number;

  constructor(index: number, term: number) {
    this.#index = index;
    this.#term = term;
  }

  /** Up to this index the log on disk equals the log in memory. */
  get index(): number {
    return this.#index;
  }

  /** The durable term, with its vote. */
  get term(): number {
    return this.#term;
  }

  get hasPending(): boolean {
    return this.#pending.length > 0;
  }

  submitted(index: number, term: number): void {
    this.#pending.push({ index, term });
  }

  completed(): void {
    const write = this.#pending.shift();
    assert(write !== undefined, 'a completed write must be pending');
    assert(write.term >= this.#term, 'a durable term never decreases');
    this.#index = Math.max(this.#index, write.index);
    this.#term = write.term;
  }

  /** The log was truncated after this index. */
  truncated(index: number): void {
    this.#index = Math.min(this.#index, index);
    for (const write of this.#pending) write.index = Math.min(write.index, index);
  }
}
