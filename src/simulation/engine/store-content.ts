/**
 * The entries of one simulated store in UTF-8 key order. Keeps what was written beside what the medium holds, so a read
 * of a corrupted value fails with STORE_CORRUPT.
 */
import { failure, type Outcome, success } from '../../base/errors.ts';
import type { StoreEntry, StoreWrite } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';

/** Both are the same array until the value is corrupted. */
type Entry = { readonly value: Uint8Array; readonly written: Uint8Array };

export class StoreContent {
  readonly #entries = new Map<string, Entry>();
  /** Keys in order; computed by the first read after a change of the keys. */
  #ordered: string[] | undefined;

  get size(): number {
    return this.#entries.size;
  }

  write(batch: readonly StoreWrite[]): void {
    for (const { key, value } of batch) {
      if (value === null) {
        if (this.#entries.delete(key)) this.#ordered = undefined;
      } else {
        const { size } = this.#entries;
        this.#entries.set(key, { value, written: value });
        if (this.#entries.size > size) this.#ordered = undefined;
      }
    }
  }

  read(range: { readonly from: string; readonly to: string; readonly limit: number }): Outcome<readonly StoreEntry[]> {
    const found: StoreEntry[] = [];
    const keys = this.#keys();
    const end = lowerBound(keys, range.to);
    for (let at = lowerBound(keys, range.from); at < end && found.length < range.limit; at++) {
      const key = keys[at] as string;
      const entry = this.#entries.get(key) as Entry;
      if (!isIntact(entry)) return failure('STORE_CORRUPT', `the value of ${key} is corrupt`);
      found.push({ key, value: entry.value.slice() });
    }
    return success(found);
  }

  /** The value on the medium, for checkers. */
  peek(key: string): Uint8Array | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Flips a bit of a random value; returns its key. */
  flipBit(random: Random): string {
    const key = random.pick(this.#keys());
    this.corrupt(key, random);
    return key;
  }

  corrupt(key: string, random: Random): void {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.value.length === 0) return;
    const value = entry.value.slice();
    const at = random.below(value.length);
    value[at] = (value[at] as number) ^ (1 << random.below(8));
    this.#entries.set(key, { value, written: entry.written });
  }

  #keys(): string[] {
    return (this.#ordered ??= [...this.#entries.keys()].toSorted(compareUtf8));
  }
}

/** UTF-8 order is the order of code points; surrogates are the one place where UTF-16 units sort otherwise. */
function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const x = a.charCodeAt(at);
    const y = b.charCodeAt(at);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

function lowerBound(keys: readonly string[], from: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareUtf8(keys[middle] as string, from) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function isIntact({ value, written }: Entry): boolean {
  return value === written || value.every((byte, at) => byte === written[at]);
}
