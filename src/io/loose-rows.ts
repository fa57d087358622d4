/**
 * Rows that were acknowledged and are not in the database yet: of each key the last one, and the number of the last group
 * of writes. Keys are held as texts of their bytes, one character each, so texts compare like the bytes.
 */
import type { StoreEntry } from '../base/ports.ts';
import { keyBytes, valueAt, visitBatch } from './store-messages.ts';

/** `value` null: it is to go. */
export type LooseRow = { readonly key: Uint8Array; readonly value: Uint8Array | null };

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Of a row: the group times this, plus where it begins. More groups or bytes than that are never loose. */
const placesPerGroup = 2 ** 32;

export class LooseRows {
  number: number;
  readonly #groups: Buffer[] = [];
  /** How many of them are in `#places`. */
  #sorted = 0;
  /** Numbers, because there are many, and most are written again before anybody reads them. */
  readonly #places = new Map<string, number>();

  constructor(number: number) {
    this.number = number;
  }

  get isEmpty(): boolean {
    return this.#groups.length === 0;
  }

  /** A group, or a part of it. */
  add(packed: Uint8Array): void {
    this.#groups.push(Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength));
  }

  /** Finds out what the last groups have; if nobody wants to know it before, when there is time. */
  sort(): void {
    for (; this.#sorted < this.#groups.length; this.#sorted++) {
      const group = this.#groups[this.#sorted] as Buffer;
      const base = this.#sorted * placesPerGroup;
      visitBatch(group, (key, at) => this.#places.set(key, base + at));
    }
  }

  *values(): Generator<LooseRow> {
    this.sort();
    for (const [key, place] of this.#places) yield this.#row(key, place);
  }

  /** Adds those from one key up to another; what stands there already is older. */
  collect(from: Uint8Array, to: Uint8Array, found: Map<string, LooseRow>): void {
    const [first, end] = [textOf(from), textOf(to)];
    this.sort();
    for (const [key, place] of this.#places) if (key >= first && key < end) found.set(key, this.#row(key, place));
  }

  #row(key: string, place: number): LooseRow {
    const group = this.#groups[Math.floor(place / placesPerGroup)] as Buffer;
    return { key: keyBytes(key), value: valueAt(group, place % placesPerGroup) };
  }
}

/** What the database has, as if it had the loose rows as well. It was asked for so many more as there are of those. */
export function mergedEntries(
  stored: readonly StoreEntry[],
  loose: ReadonlyMap<string, LooseRow>,
  limit: number,
): StoreEntry[] {
  const merged = new Map(stored.map((entry) => [Buffer.from(entry.key).toString('latin1'), entry]));
  for (const [text, { key, value }] of loose) {
    if (value === null) merged.delete(text);
    // A copy, because what is answered is given away.
    else merged.set(text, { key: decoder.decode(key), value: value.slice() });
  }
  const inOrder = [...merged].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.slice(0, limit).map(([, entry]) => entry);
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}
