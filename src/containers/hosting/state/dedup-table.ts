/**
 * The remembered calls of one session by counter: with result, or only the fact that they ran. Eviction is decided in
 * `exactly-once.ts`.
 */
import { assert } from '../../../base/assert.ts';
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';
import { CounterIndex } from '../../../base/collections/counter-index.ts';
import type { RemusterError } from '../../../base/errors.ts';

/** What a call answered: its encoded result, or the error with which it refused. */
export type DedupResult = { readonly value: Uint8Array } | { readonly error: RemusterError };

export type DedupEntry = {
  readonly counter: number;
  /** Of the row in which it lies. */
  readonly slot: number;
  /** Undefined: it was given, and is not known any more. */
  answer: DedupResult | undefined;
  nextInChain: DedupEntry | undefined;
};

/** More than any limit of a container lets come together. */
const keptMax = 1_000_000;

export class DedupTable {
  readonly #byCounter = new CounterIndex<DedupEntry>();
  readonly #answers = new BoundedQueue<DedupEntry>(keptMax);
  readonly #given = new BoundedQueue<DedupEntry>(keptMax);

  /** How many have their answers. */
  get answers(): number {
    return this.#answers.length;
  }

  /** How many have run, and their answers are not known any more. */
  get evicted(): number {
    return this.#given.length;
  }

  find(counter: number): DedupEntry | undefined {
    return this.#byCounter.find(counter);
  }

  /** The newest of all. */
  add(counter: number, slot: number, answer: DedupResult | undefined): void {
    const kept: DedupEntry = { counter, slot, answer, nextInChain: undefined };
    const line = answer === undefined ? this.#given : this.#answers;
    assert(line.push(kept), 'a session keeps a bounded number of answers');
    this.#byCounter.add(kept);
  }

  oldestAnswer(): DedupEntry | undefined {
    return this.#answers.peek();
  }

  /** The oldest answer is not known any more, only that it was given. */
  dropOldestAnswer(): void {
    const kept = this.#answers.shift();
    if (kept === undefined) return;
    kept.answer = undefined;
    assert(this.#given.push(kept), 'a session keeps a bounded number of answers');
  }

  removeOldestEvicted(): DedupEntry | undefined {
    return this.#forgotten(this.#given.shift());
  }

  /** One that is over; undefined when there is none. Counters come nearly in order: what is behind a later one waits. */
  removeBelow(floor: number): DedupEntry | undefined {
    const line = isBelow(this.#given.peek(), floor) ? this.#given : this.#answers;
    return isBelow(line.peek(), floor) ? this.#forgotten(line.shift()) : undefined;
  }

  /** What was added in any order is in that of the counters. */
  sort(): void {
    for (const line of [this.#given, this.#answers]) {
      const sorted = [...line].toSorted((a, b) => a.counter - b.counter);
      line.clear();
      for (const kept of sorted) line.push(kept);
    }
  }

  all(): readonly DedupEntry[] {
    return [...this.#given, ...this.#answers];
  }

  #forgotten(kept: DedupEntry | undefined): DedupEntry | undefined {
    if (kept !== undefined) this.#byCounter.delete(kept);
    return kept;
  }
}

function isBelow(kept: DedupEntry | undefined, floor: number): boolean {
  return kept !== undefined && kept.counter < floor;
}
