/**
 * The line of commits of one container, and who waits behind which of them. Commits are issued without waiting for the
 * former and end in order. An answer stands behind everything that its call could have seen, so nobody hears of what a
 * crash could take back. Owns numbers and order; commits nothing itself.
 */
import { assert } from '../../base/assert.ts';
import { BoundedQueue } from '../../base/bounded-queue.ts';

export class CommitLine<T> {
  /** In order, each with the last commit that it could have seen. Bounded by whoever appends. */
  readonly #waiting = new Map<T, number>();
  /** Of the commits under way. */
  readonly #sizes: BoundedQueue<number>;
  #issued = 0;
  #ended = 0;
  #bytes = 0;

  constructor(commitsMax: number) {
    this.#sizes = new BoundedQueue(commitsMax);
  }

  /** Nothing is under way. */
  get isSettled(): boolean {
    return this.#issued === this.#ended;
  }

  get isFull(): boolean {
    return this.#sizes.length === this.#sizes.max;
  }

  /** Of what is under way. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The number of the new commit. */
  issue(bytes: number): number {
    assert(this.#sizes.push(bytes), 'more commits are under way than allowed');
    this.#bytes += bytes;
    return ++this.#issued;
  }

  /** Behind everything that was issued so far. */
  append(item: T): void {
    this.#waiting.set(item, this.#issued);
  }

  /** It waits no longer. */
  delete(item: T): void {
    this.#waiting.delete(item);
  }

  /** Ends the oldest commit and gives out, in order, who waited for no later one. */
  ended(commit: number, release: (item: T) => void): void {
    assert(commit === this.#ended + 1 && commit <= this.#issued, 'commits end in the order in which they were issued');
    this.#ended = commit;
    this.#bytes -= this.#sizes.shift() ?? 0;
    for (const [item, behind] of this.#waiting) {
      if (behind > this.#ended) break;
      this.#waiting.delete(item);
      release(item);
    }
  }

  /** No commit ends any more: everybody who waits, in order. */
  abandon(): T[] {
    const left = [...this.#waiting.keys()];
    this.#waiting.clear();
    return left;
  }
}
