/**
 * A hash index by an increasing number, chained through a field of the items: no allocation per item. Invariant: an item
 * is in one index at a time.
 */

export type CounterIndexItem<T> = {
  readonly counter: number;
  /** Owned by the index. */
  nextInChain: T | undefined;
};

const chainsMin = 16;

export class CounterIndex<T extends CounterIndexItem<T>> {
  #chains: (T | undefined)[] = emptyChains(chainsMin);
  #mask = chainsMin - 1;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The latest item with this number. Earlier ones follow in its chain, mixed with other numbers. */
  find(counter: number): T | undefined {
    let item = this.#chains[counter & this.#mask];
    while (item !== undefined && item.counter !== counter) item = item.nextInChain;
    return item;
  }

  add(item: T): void {
    if (this.#size > this.#mask) this.#grow();
    this.#link(item);
    this.#size += 1;
  }

  /** False if the item was not in the index. */
  delete(item: T): boolean {
    const at = item.counter & this.#mask;
    let before: T | undefined;
    let found = this.#chains[at];
    while (found !== undefined && found !== item) {
      before = found;
      found = found.nextInChain;
    }
    if (found === undefined) return false;
    if (before === undefined) this.#chains[at] = item.nextInChain;
    else before.nextInChain = item.nextInChain;
    item.nextInChain = undefined;
    this.#size -= 1;
    return true;
  }

  /** By number; among equal numbers the latest first. */
  all(): T[] {
    const all: T[] = [];
    for (const first of this.#chains)
      for (let item = first; item !== undefined; item = item.nextInChain) all.push(item);
    return all.toSorted((a, b) => a.counter - b.counter);
  }

  #link(item: T): void {
    const at = item.counter & this.#mask;
    item.nextInChain = this.#chains[at];
    this.#chains[at] = item;
  }

  #grow(): void {
    const all = this.all();
    this.#chains = emptyChains(this.#chains.length * 2);
    this.#mask = this.#chains.length - 1;
    // Items with the same number keep their order.
    for (const item of all.toReversed()) this.#link(item);
  }
}

function emptyChains<T>(count: number): (T | undefined)[] {
  return Array.from({ length: count });
}
