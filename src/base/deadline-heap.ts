/**
 * Named deadlines in a binary heap, one per name. A replaced or deleted deadline stays in the heap until it is due or too
 * many of them are stale. Owns no timer.
 */
type Entry = { readonly atMs: number; readonly name: string };

const staleMax = 64;

export class DeadlineHeap {
  readonly #times = new Map<string, number>();
  #heap: Entry[] = [];

  get size(): number {
    return this.#times.size;
  }

  set(name: string, atMs: number): void {
    if (this.#times.get(name) === atMs) return;
    this.#times.set(name, atMs);
    this.#push({ name, atMs });
    if (this.#heap.length > 2 * this.#times.size + staleMax) this.#rebuild();
  }

  delete(name: string): void {
    this.#times.delete(name);
  }

  clear(): void {
    this.#times.clear();
    this.#heap = [];
  }

  nextDueMs(): number | undefined {
    this.#skipStale();
    return this.#heap[0]?.atMs;
  }

  /** Removes and returns the next name whose deadline has passed. */
  popDue(nowMs: number): string | undefined {
    this.#skipStale();
    const first = this.#heap[0];
    if (first === undefined || first.atMs > nowMs) return undefined;
    this.#pop();
    this.#times.delete(first.name);
    return first.name;
  }

  #skipStale(): void {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (this.#times.get(first.name) === first.atMs) return;
      this.#pop();
    }
  }

  #rebuild(): void {
    this.#heap = [];
    for (const [name, atMs] of this.#times) this.#push({ name, atMs });
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = heap[parent] as Entry;
      if (above.atMs <= entry.atMs) break;
      heap[index] = above;
      index = parent;
    }
    heap[index] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && right.atMs < (heap[child] as Entry).atMs) child += 1;
      const lesser = heap[child] as Entry;
      if (last.atMs <= lesser.atMs) break;
      heap[index] = lesser;
      index = child;
    }
    heap[index] = last;
  }
}
