/**
 * A row store in memory, for pools with durability `memory`. Same interface as the disk; its rows end with the process,
 * and completions arrive in a later turn of the clock.
 */
import { success } from '../../base/errors.ts';
import { unpackRows } from '../../base/row-codec.ts';
import type { Clock, RowStore, StoreEntry, StoreWrite } from '../../base/ports.ts';
import { OrderedMap } from '../../base/collections/ordered-map.ts';

export function createMemoryStore(clock: Pick<Clock, 'schedule'>): Pick<RowStore, 'read' | 'write'> {
  const rows = new OrderedMap<Uint8Array>();
  const write = ({ key, value }: StoreWrite): void => {
    if (value === null) rows.delete(key);
    else rows.set(key, value);
  };
  return {
    write: (batch, done) => {
      for (const item of batch) {
        if (!('packed' in item)) write(item);
        // Values are copied, so that the packed buffer can be freed.
        else for (const { key, value } of unpackRows(item)) write({ key, value: value && new Uint8Array(value) });
      }
      clock.schedule(0, () => done(success(undefined)));
    },
    read: ({ from, to, limit }, done) => {
      const found: StoreEntry[] = [];
      rows.visit(from, to, (value, key) => {
        if (found.length < limit) found.push({ key, value });
        return found.length < limit;
      });
      clock.schedule(0, () => done(success(found)));
    },
  };
}
