/**
 * Rows that were acknowledged and are not in the database yet: of each key the last one, and the number of the last group
 * of writes. Keys are held as texts of their bytes, one character each, so texts compare like the bytes.
 */
import type { StoreEntry } from '../base/ports.ts';
import { unpackBatch } from './store-messages.ts';

/** `value` null: it is to go. */
export type LooseRow = { readonly key: Uint8Array; readonly value: Uint8Array | null };

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class LooseRows {
  number: number;
  readonly #rows = new Map<string, LooseRow>();

  constructor(number: number) {
    this.number = number;
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  /** A group, or a part of it. */
  add(packed: Uint8Array): void {
    for (const row of unpackBatch(packed)) this.#rows.set(textOf(row.key), row);
  }

  values(): IterableIterator<LooseRow> {
    return this.#rows.values();
  }

  /** Adds those from one key up to another; what stands there already is older. */
  collect(from: Uint8Array, to: Uint8Array, found: Map<string, LooseRow>): void {
    const [first, end] = [textOf(from), textOf(to)];
    for (const [key, row] of this.#rows) if (key >= first && key < end) found.set(key, row);
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
