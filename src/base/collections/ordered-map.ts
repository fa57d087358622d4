/**
 * A map with range scans in UTF-8 byte order: hash map plus sorted runs. Invariant: every run is sorted and, except the
 * only one, not empty. A run is searched by bisection and changed by shifting a few hundred references, so an operation
 * on a million keys costs about as much as one on a thousand.
 */
import { utf8SortKey } from '../registry-validation.ts';

/** Longer runs are split in two. */
const runMax = 512;

type Item<V> = { readonly key: string; readonly order: string; value: V };

export class OrderedMap<V> {
  readonly #items = new Map<string, Item<V>>();
  /** None is empty, except a single one. */
  #runs: Item<V>[][] = [[]];

  get size(): number {
    return this.#items.size;
  }

  get(key: string): V | undefined {
    return this.#items.get(key)?.value;
  }

  set(key: string, value: V): void {
    this.replace(key, value);
  }

  /** Sets the value and returns the previous one. */
  replace(key: string, value: V): V | undefined {
    const known = this.#items.get(key);
    if (known === undefined) {
      this.#insert({ key, order: utf8SortKey(key), value });
      return undefined;
    }
    const old = known.value;
    known.value = value;
    return old;
  }

  delete(key: string): boolean {
    const item = this.#items.get(key);
    if (item === undefined) return false;
    this.#items.delete(key);
    const at = this.#runFor(item.order);
    const run = this.#runs[at] as Item<V>[];
    run.splice(firstNotBefore(run, item.order), 1);
    if (run.length === 0 && this.#runs.length > 1) this.#runs.splice(at, 1);
    return true;
  }

  /** Removes and returns all keys with `from <= key < to`, in order, whole runs at a time. */
  takeRange(from: string, to: string): readonly V[] {
    const first = utf8SortKey(from);
    const end = utf8SortKey(to);
    const taken: V[] = [];
    for (let at = this.#runFor(first); at < this.#runs.length;) {
      const run = this.#runs[at] as Item<V>[];
      const start = firstNotBefore(run, first);
      const stop = firstNotBefore(run, end);
      const isEnd = stop < run.length;
      // Nothing in a run before the one in which the range begins.
      const items = stop > start ? run.splice(start, stop - start) : [];
      for (const { key, value } of items) {
        this.#items.delete(key);
        taken.push(value);
      }
      if (run.length === 0 && this.#runs.length > 1) this.#runs.splice(at, 1);
      else at += 1;
      if (isEnd) break;
    }
    return taken;
  }

  clear(): void {
    this.#items.clear();
    this.#runs = [[]];
  }

  /** Keys with `from <= key < to` in order, until the visitor returns false. It must not change the map. */
  visit(from: string, to: string, visitor: (value: V, key: string) => boolean): void {
    const first = utf8SortKey(from);
    const end = utf8SortKey(to);
    for (let at = this.#runFor(first); at < this.#runs.length; at++) {
      const run = this.#runs[at] as Item<V>[];
      for (let i = firstNotBefore(run, first); i < run.length; i++) {
        const item = run[i] as Item<V>;
        if (item.order >= end || !visitor(item.value, item.key)) return;
      }
    }
  }

  /** The same keys in descending order. */
  visitBack(from: string, to: string, visitor: (value: V, key: string) => boolean): void {
    const first = utf8SortKey(from);
    const end = utf8SortKey(to);
    for (let at = this.#runFor(end); at >= 0; at--) {
      const run = this.#runs[at] as Item<V>[];
      for (let i = firstNotBefore(run, end) - 1; i >= 0; i--) {
        const item = run[i] as Item<V>;
        if (item.order < first || !visitor(item.value, item.key)) return;
      }
    }
  }

  /** All values in key order. */
  values(): V[] {
    const out: V[] = [];
    for (const run of this.#runs) for (const item of run) out.push(item.value);
    return out;
  }

  #insert(item: Item<V>): void {
    this.#items.set(item.key, item);
    if (this.#append(item)) return;
    const at = this.#runFor(item.order);
    const run = this.#runs[at] as Item<V>[];
    run.splice(firstNotBefore(run, item.order), 0, item);
    if (run.length > runMax) this.#runs.splice(at + 1, 0, run.splice(runMax >> 1));
  }

  /** Keys often arrive in ascending order (from snapshots always): these need no search, and fill the runs. */
  #append(item: Item<V>): boolean {
    const run = this.#runs.at(-1) as Item<V>[];
    const last = run.at(-1);
    if (last !== undefined && last.order >= item.order) return false;
    if (run.length < runMax) run.push(item);
    else this.#runs.push([item]);
    return true;
  }

  /** The last run that begins at or before `order`, or the first run. */
  #runFor(order: string): number {
    let low = 0;
    let high = this.#runs.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const first = (this.#runs[middle] as Item<V>[])[0] as Item<V>;
      if (first.order <= order) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

function firstNotBefore(run: readonly Item<unknown>[], order: string): number {
  let low = 0;
  let high = run.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((run[middle] as Item<unknown>).order < order) low = middle + 1;
    else high = middle;
  }
  return low;
}
