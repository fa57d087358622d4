/**
 * The order of commits and of the replies behind them. A reply waits for every commit that its call could have read, so
 * no caller learns of state that a crash could lose. Commits nothing itself.
 */
import { assert } from '../../../base/assert.ts';
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';

/** Released items before the first waiting one that trigger a compaction. */
const releasedMax = 1_024;

export class CommitQueue<T extends object | string> {
  /** In order; beside each item, in `#afterCommit`, the last commit that it could have read. Bounded by the callers. */
  #waiting: (T | undefined)[] = [];
  #afterCommit: number[] = [];
  /** Items before this index are released; after it, `undefined` marks deleted items. */
  #head = 0;
  /** Sizes of the pending commits. */
  readonly #sizes: BoundedQueue<number>;
  #issued = 0;
  #completed = 0;
  #bytes = 0;

  constructor(commitsMax: number) {
    this.#sizes = new BoundedQueue(commitsMax);
  }

  /** No commit is pending. */
  get isEmpty(): boolean {
    return this.#issued === this.#completed;
  }

  get isFull(): boolean {
    return this.#sizes.length === this.#sizes.max;
  }

  /** Bytes of the pending commits. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the number of the new commit. */
  begin(bytes: number): number {
    assert(this.#sizes.push(bytes), 'more commits are pending than allowed');
    this.#bytes += bytes;
    return ++this.#issued;
  }

  /** The item waits for all commits issued so far. */
  append(item: T): void {
    this.#waiting.push(item);
    this.#afterCommit.push(this.#issued);
  }

  /** Removes an item. Rare: most wait for their commit. */
  delete(item: T): void {
    const at = this.#waiting.indexOf(item, this.#head);
    if (at >= 0) this.#waiting[at] = undefined;
  }

  /** Completes the oldest commit and releases, in order, the items that wait for no later one. */
  complete(commit: number, release: (item: T) => void): void {
    assert(
      commit === this.#completed + 1 && commit <= this.#issued,
      'commits complete in the order in which they were issued',
    );
    this.#completed = commit;
    this.#bytes -= this.#sizes.shift() ?? 0;
    while (this.#head < this.#waiting.length && (this.#afterCommit[this.#head] as number) <= this.#completed) {
      const item = this.#waiting[this.#head];
      this.#waiting[this.#head] = undefined;
      this.#head += 1;
      if (item !== undefined) release(item);
    }
    this.#compact();
  }

  /** No commit completes any more: removes and returns all waiting items, in order. */
  failAll(): T[] {
    const left = this.#waiting.filter((item) => item !== undefined);
    [this.#waiting, this.#afterCommit, this.#head] = [[], [], 0];
    return left;
  }

  #compact(): void {
    if (this.#head === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#afterCommit.length = 0;
      this.#head = 0;
    } else if (this.#head >= releasedMax && this.#head * 2 >= this.#waiting.length) {
      this.#waiting.splice(0, this.#head);
      this.#afterCommit.splice(0, this.#head);
      this.#head = 0;
    }
  }
}
