/**
 * Order of commits and of the answers behind them. An answer waits for every commit its call could have seen. So nobody
 * hears of what a crash could take back. Commits nothing itself.
 */
import { assert } from '../../../base/assert.ts';
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';

/** So many who are gone may stand before the first who waits. */
const goneMax = 1_024;

export class CommitQueue<T extends object | string> {
  /** In order, and beside each the last commit that it could have seen. Bounded by whoever appends. */
  #waiting: (T | undefined)[] = [];
  #behind: number[] = [];
  /** Whoever stands before this place is gone; behind it only who has left. */
  #head = 0;
  /** Of the commits under way. */
  readonly #sizes: BoundedQueue<number>;
  #issued = 0;
  #ended = 0;
  #bytes = 0;

  constructor(commitsMax: number) {
    this.#sizes = new BoundedQueue(commitsMax);
  }

  /** Nothing is under way. */
  get isEmpty(): boolean {
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
  begin(bytes: number): number {
    assert(this.#sizes.push(bytes), 'more commits are under way than allowed');
    this.#bytes += bytes;
    return ++this.#issued;
  }

  /** Behind everything that was issued so far. */
  append(item: T): void {
    this.#waiting.push(item);
    this.#behind.push(this.#issued);
  }

  /** It waits no longer. Rare: most wait for their commit. */
  delete(item: T): void {
    const at = this.#waiting.indexOf(item, this.#head);
    if (at >= 0) this.#waiting[at] = undefined;
  }

  /** Ends the oldest commit and gives out, in order, who waited for no later one. */
  complete(commit: number, release: (item: T) => void): void {
    assert(commit === this.#ended + 1 && commit <= this.#issued, 'commits end in the order in which they were issued');
    this.#ended = commit;
    this.#bytes -= this.#sizes.shift() ?? 0;
    while (this.#head < this.#waiting.length && (this.#behind[this.#head] as number) <= this.#ended) {
      const item = this.#waiting[this.#head];
      this.#waiting[this.#head] = undefined;
      this.#head += 1;
      if (item !== undefined) release(item);
    }
    this.#shorten();
  }

  /** No commit ends any more: everybody who waits, in order. */
  failAll(): T[] {
    const left = this.#waiting.filter((item) => item !== undefined);
    [this.#waiting, this.#behind, this.#head] = [[], [], 0];
    return left;
  }

  #shorten(): void {
    if (this.#head === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#behind.length = 0;
      this.#head = 0;
    } else if (this.#head >= goneMax && this.#head * 2 >= this.#waiting.length) {
      this.#waiting.splice(0, this.#head);
      this.#behind.splice(0, this.#head);
      this.#head = 0;
    }
  }
}
