/**
 * A map and a set that copy themselves after many deletions, so that old hash tables do not stay reachable. Never
 * promises a stable view to a loop that changes it.
 *
 * Whoever goes through one while it changes may still meet what is gone, and may miss what has come.
 */

/** So many have to be gone, and as many as are left, so that copying them costs about as much as adding them did. */
const deletionsMin = 32;

export class CompactingSet<T> {
  #items = new Set<T>();
  /** Since it was made anew. */
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
    const isGone = this.#items.delete(item);
    if (isGone) this.#deletions += 1;
    return isGone;
  }

  clear(): void {
    this.#items = new Set();
    this.#deletions = 0;
  }

  /** In the order in which they came. */
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
      // A map that is made of another one makes a pair of each entry on the way.
      this.#items.forEach((value, key) => items.set(key, value));
      this.#items = items;
      this.#deletions = 0;
    }
    this.#items.set(key, value);
  }

  delete(key: K): boolean {
    const isGone = this.#items.delete(key);
    if (isGone) this.#deletions += 1;
    return isGone;
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

  /** In the order in which they came. */
  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.#items.entries();
  }
}
