/**
 * A store without a disk, for pools that live in memory alone: the same words, and gone with the process. Ends come in
 * the next turn of the clock.
 */
import { success } from '../../base/errors.ts';
import type { Clock, Store, StoreEntry } from '../../base/ports.ts';
import { OrderedMap } from '../../registry/ordered-map.ts';

export function memoryStore(clock: Pick<Clock, 'schedule'>): Pick<Store, 'read' | 'write'> {
  const rows = new OrderedMap<Uint8Array>();
  return {
    write: (batch, done) => {
      for (const { key, value } of batch) {
        if (value === null) rows.delete(key);
        else rows.set(key, value);
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
