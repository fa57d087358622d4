/**
 * A map and a set that copy themselves after many deletions, so that old hash tables do not stay reachable. Never
 * promises a stable view to a loop that changes it: an iteration under way may return deleted items and miss new ones.
 */

/** Copies after this many deletions, and at least as many as items are left, so the copy costs no more than the adds. */
const deletionsMin = 32;

export class CompactingSet<T> {
  #items = new Set<T>();
  /** Since the last copy. */
  #deletions = 0;

  get size(): number {
    return this.#items.size;
  }

  has(item: T): boolean {
    return this.#items.has(item);
  }

  add(item: T): void {
    if (this.#deletions >= deletionsMin && this.#deletions >= this.#items.size) {
      this.#items = new Set(this.#items);
      this.#deletions = 0;
    }
    this.#items.add(item);
  }

  delete(item: T): boolean {
    const wasPresent = this.#items.delete(item);
    if (wasPresent) this.#deletions += 1;
    return wasPresent;
  }

  clear(): void {
    this.#items = new Set();
    this.#deletions = 0;
  }

  /** In insertion order. */
  [Symbol.iterator](): SetIterator<T> {
    return this.#items.values();
  }
}

export class CompactingMap<K, V> {
  #items = new Map<K, V>();
  #deletions = 0;

  get size(): number {
    return this.#items.size;
  }

  has(key: K): boolean {
    return this.#items.has(key);
  }

  get(key: K): V | undefined {
    return this.#items.get(key);
  }

  set(key: K, value: V): void {
    if (this.#deletions >= deletionsMin && this.#deletions >= this.#items.size) {
      const items = new Map<K, V>();
      // `new Map(map)` would allocate a pair per entry.
      this.#items.forEach((value, key) => items.set(key, value));
      this.#items = items;
      this.#deletions = 0;
    }
    this.#items.set(key, value);
  }

  delete(key: K): boolean {
    const wasPresent = this.#items.delete(key);
    if (wasPresent) this.#deletions += 1;
    return wasPresent;
  }

  clear(): void {
    this.#items = new Map();
    this.#deletions = 0;
  }

  keys(): MapIterator<K> {
    return this.#items.keys();
  }

  values(): MapIterator<V> {
    return this.#items.values();
  }

  /** In insertion order. */
  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.#items.entries();
  }
}
