/**
 * Up to which index and term the disk is safe. Entries that were truncated meanwhile do not count when their write
 * returns.
 */
import { assert } from '../../base/assert.ts';

type PendingWrite = { index: number; readonly term: number };

export class DurabilityTracker {
  readonly #marks: PendingWrite[] = [];
  #index: number;
  #term: number;

  constructor(index: number, term: number) {
    this.#index = index;
    this.#term = term;
  }

  /** The log is durable and as it is in memory up to here. */
  get index(): number {
    return this.#index;
  }

  /** The term (with its vote) that a crash cannot take back. */
  get term(): number {
    return this.#term;
  }

  get hasPending(): boolean {
    return this.#marks.length > 0;
  }

  submitted(index: number, term: number): void {
    this.#marks.push({ index, term });
  }

  completed(): void {
    const mark = this.#marks.shift();
    assert(mark !== undefined, 'a write was reported that nobody made');
    assert(mark.term >= this.#term, 'a durable term went back');
    this.#index = Math.max(this.#index, mark.index);
    this.#term = mark.term;
  }

  /** Everything behind this entry was cut off. */
  truncated(index: number): void {
    this.#index = Math.min(this.#index, index);
    for (const mark of this.#marks) mark.index = Math.min(mark.index, index);
  }
}
