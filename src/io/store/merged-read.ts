/** A range read that overlays log rows on database rows. Reads only those log values that are in the result. */
import { assert } from '../../base/assert.ts';
import type { StoreEntry } from '../../base/ports.ts';
import { tombstone, type StoreLogRowRef } from './store-log-index.ts';
import { keyBytes } from './store-protocol.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Each tombstone may remove a row of the database from the result, so the read needs that many rows more. */
export function tombstoneCount(logRows: ReadonlyMap<string, StoreLogRowRef>): number {
  let count = 0;
  for (const { position } of logRows.values()) if (position === tombstone) count += 1;
  return count;
}

export function mergeWithLog(
  stored: readonly StoreEntry[],
  logRows: ReadonlyMap<string, StoreLogRowRef>,
  limit: number,
): StoreEntry[] {
  const merged = new Map<string, StoreEntry | StoreLogRowRef>();
  for (const entry of stored) merged.set(Buffer.from(entry.key).toString('latin1'), entry);
  for (const [key, row] of logRows) {
    if (row.position === tombstone) merged.delete(key);
    else merged.set(key, row);
  }
  const inOrder = [...merged].toSorted(([a], [b]) => (a < b ? -1 : 1)).slice(0, limit);
  const values = valuesOf(inOrder.flatMap(([, row]) => ('position' in row ? [row] : [])));
  return inOrder.map(([key, row]) => {
    if (!('position' in row)) return row;
    const value = values.get(row);
    assert(value !== undefined, 'a row that is no tombstone has a value');
    return { key: decoder.decode(keyBytes(key)), value };
  });
}

/** Copies, because the reader reuses its memory and the reply is transferred. */
function valuesOf(rows: readonly StoreLogRowRef[]): ReadonlyMap<StoreLogRowRef, Uint8Array | undefined> {
  const inFileOrder = rows.toSorted((a, b) => a.position - b.position);
  return new Map(inFileOrder.map((row) => [row, row.rows.value(row.position)?.slice()]));
}
