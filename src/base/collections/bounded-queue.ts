/** A FIFO ring buffer with a size limit: `push` returns false when full. Never drops an item. */
import { assert } from '../assert.ts';

export class BoundedQueue<T> {
  readonly max: number;
  #ring: (T | undefined)[];
  #head = 0;
  #length = 0;

  constructor(max: number) {
    assert(Number.isSafeInteger(max) && max > 0, 'a bounded queue needs a positive bound');
    this.max = max;
    this.#ring = Array.from({ length: Math.min(16, max) });
  }

  get length(): number {
    return this.#length;
  }

  /** False when full: the item was not taken. */
  push(item: T): boolean {
    if (this.#length === this.max) return false;
    if (this.#length === this.#ring.length) this.#grow();
    this.#ring[(this.#head + this.#length) % this.#ring.length] = item;
    this.#length += 1;
    return true;
  }

  peek(): T | undefined {
    return this.#length === 0 ? undefined : this.#ring[this.#head];
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined;
    const item = this.#ring[this.#head];
    this.#ring[this.#head] = undefined;
    this.#head = (this.#head + 1) % this.#ring.length;
    this.#length -= 1;
    return item;
  }

  clear(): void {
    this.#ring = Array.from({ length: Math.min(16, this.max) });
    this.#head = 0;
    this.#length = 0;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let i = 0; i < this.#length; i++) yield this.#ring[(this.#head + i) % this.#ring.length] as T;
  }

  #grow(): void {
    const items = [...this];
    this.#ring = Array.from({ length: Math.min(this.#ring.length * 2, this.max) });
    for (const [i, item] of items.entries()) this.#ring[i] = item;
    this.#head = 0;
  }
}
