/** A range read that overlays log rows on database rows. Reads only those log values that are in the result. */
import { assert } from '../../base/assert.ts';
import type { StoreEntry } from '../../base/ports.ts';
import { tombstone, type StoreLogRowRef } from './store-log-index.ts';
import { keyBytes } from './store-protocol.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** So many rows of the database may be missing from the answer: it has to be asked for as many more. */
export function tombstoneCount(loose: ReadonlyMap<string, StoreLogRowRef>): number {
  let count = 0;
  for (const { offset } of loose.values()) if (offset === tombstone) count += 1;
  return count;
}

export function mergeWithLog(
  stored: readonly StoreEntry[],
  loose: ReadonlyMap<string, StoreLogRowRef>,
  limit: number,
): StoreEntry[] {
  const merged = new Map<string, StoreEntry | StoreLogRowRef>();
  for (const entry of stored) merged.set(Buffer.from(entry.key).toString('latin1'), entry);
  for (const [key, row] of loose) {
    if (row.offset === tombstone) merged.delete(key);
    else merged.set(key, row);
  }
  const inOrder = [...merged].toSorted(([a], [b]) => (a < b ? -1 : 1)).slice(0, limit);
  const values = valuesOf(inOrder.flatMap(([, row]) => ('offset' in row ? [row] : [])));
  return inOrder.map(([key, row]) => {
    if (!('offset' in row)) return row;
    const value = values.get(row);
    assert(value !== undefined, 'a row that is not gone has a value');
    return { key: decoder.decode(keyBytes(key)), value };
  });
}

/** Copies, because what is answered is given away. */
function valuesOf(rows: readonly StoreLogRowRef[]): ReadonlyMap<StoreLogRowRef, Uint8Array | undefined> {
  const inFileOrder = rows.toSorted((a, b) => a.offset - b.offset);
  return new Map(inFileOrder.map((row) => [row, row.rows.value(row.offset)?.slice()]));
}
