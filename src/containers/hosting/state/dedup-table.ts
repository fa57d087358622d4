/**
 * The remembered calls of one session by counter, with their results or only with the fact that they ran.
 * `exactly-once.ts` decides what is evicted.
 */
import { assert } from '../../../base/assert.ts';
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';
import { CounterIndex } from '../../../base/collections/counter-index.ts';
import type { RemusterError } from '../../../base/errors.ts';

/** The outcome of a call: its encoded result, or its error. */
export type DedupResult = { readonly value: Uint8Array } | { readonly error: RemusterError };

export type DedupEntry = {
  readonly counter: number;
  /** Number of its row. */
  readonly slot: number;
  /** Undefined: the call ran, and its result is evicted. */
  result: DedupResult | undefined;
  nextInChain: DedupEntry | undefined;
};

/** More than the limits of a container allow. */
const entriesMax = 1_000_000;

export class DedupTable {
  readonly #byCounter = new CounterIndex<DedupEntry>();
  readonly #results = new BoundedQueue<DedupEntry>(entriesMax);
  readonly #evicted = new BoundedQueue<DedupEntry>(entriesMax);

  /** Entries with a result. */
  get results(): number {
    return this.#results.length;
  }

  /** Entries without a result. */
  get evicted(): number {
    return this.#evicted.length;
  }

  find(counter: number): DedupEntry | undefined {
    return this.#byCounter.find(counter);
  }

  /** Adds the newest entry. */
  add(counter: number, slot: number, result: DedupResult | undefined): void {
    const entry: DedupEntry = { counter, slot, result, nextInChain: undefined };
    const queue = result === undefined ? this.#evicted : this.#results;
    assert(queue.push(entry), 'a session has a bounded number of results');
    this.#byCounter.add(entry);
  }

  oldestResult(): DedupEntry | undefined {
    return this.#results.peek();
  }

  /** Drops the oldest result; the fact that the call ran stays. */
  evictOldestResult(): void {
    const entry = this.#results.shift();
    if (entry === undefined) return;
    entry.result = undefined;
    assert(this.#evicted.push(entry), 'a session has a bounded number of results');
  }

  removeOldestEvicted(): DedupEntry | undefined {
    return this.#unindex(this.#evicted.shift());
  }

  /** Removes one entry below the floor; undefined when none is found. An entry behind a later counter waits for it. */
  removeBelow(floor: number): DedupEntry | undefined {
    const queue = isBelow(this.#evicted.peek(), floor) ? this.#evicted : this.#results;
    return isBelow(queue.peek(), floor) ? this.#unindex(queue.shift()) : undefined;
  }

  /** Sorts entries that were added in any order by counter. */
  sort(): void {
    for (const queue of [this.#evicted, this.#results]) {
      const sorted = [...queue].toSorted((a, b) => a.counter - b.counter);
      queue.clear();
      for (const entry of sorted) queue.push(entry);
    }
  }

  all(): readonly DedupEntry[] {
    return [...this.#evicted, ...this.#results];
  }

  #unindex(entry: DedupEntry | undefined): DedupEntry | undefined {
    if (entry !== undefined) this.#byCounter.delete(entry);
    return entry;
  }
}

function isBelow(entry: DedupEntry | undefined, floor: number): boolean {
  return entry !== undefined && entry.counter < floor;
}
