/**
 * A store without a disk, for pools that live in memory alone: the same words, and gone with the process. Ends come in
 * the next turn of the clock.
 */
import { success } from '../../base/errors.ts';
import { unpackRows } from '../../base/packed-rows.ts';
import type { Clock, RowStore, StoreEntry, StoreWrite } from '../../base/ports.ts';
import { OrderedMap } from '../../registry/ordered-map.ts';

export function memoryStore(clock: Pick<Clock, 'schedule'>): Pick<RowStore, 'read' | 'write'> {
  const rows = new OrderedMap<Uint8Array>();
  const write = ({ key, value }: StoreWrite): void => {
    if (value === null) rows.delete(key);
    // What it lies in may be much larger.
    else rows.set(key, new Uint8Array(value));
  };
  return {
    write: (batch, done) => {
      for (const item of batch) {
        if ('packed' in item) unpackRows(item).forEach(write);
        else write(item);
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
