/** The Store port on a simulated disk: a batch takes effect as a whole or not at all. */
import { failure } from '../../base/errors.ts';
import { unpackRows } from '../../base/row-codec.ts';
import type { RowStore } from '../../base/ports.ts';
import { type SimulatedDisk, voidSuccess } from '../engine/simulated-disk.ts';
import type { Failpoints } from '../../base/failpoints.ts';
import type { SimulatedProcess } from '../engine/simulated-process.ts';

export function simulatedStore(
  disk: SimulatedDisk,
  process: SimulatedProcess,
  name: string,
  failpoints: Failpoints,
): RowStore {
  const content = disk.store(name);
  let open = true;
  const closeNow = () => {
    open = false;
    return voidSuccess;
  };
  return {
    write(batch, done) {
      const rows = batch.flatMap((item) => ('packed' in item ? unpackRows(item) : [item]));
      const copy = rows.map(({ key, value }) => ({ key, value: value === null ? null : value.slice() }));
      let sizeBytes = 0;
      for (const { key, value } of copy) sizeBytes += key.length + (value?.length ?? 0);
      const grows = copy.some(({ value }) => value !== null);
      const effect = () => {
        if (!open) return failure('CANCELLED', 'the store is closed');
        if (!copy.every(({ key }) => key.isWellFormed())) return failure('BAD_ARGUMENT', 'a key is not valid Unicode');
        if (failpoints('store-full-once')) return failure('STORE_FULL');
        content.write(copy);
        return voidSuccess;
      };
      disk.write(process, sizeBytes, grows, effect, done);
    },
    read(range, done) {
      const effect = () => {
        if (!open) return failure('CANCELLED', 'the store is closed');
        if (!Number.isSafeInteger(range.limit) || range.limit < 0)
          return failure('BAD_ARGUMENT', 'the limit must be a whole number from 0');
        return content.read(range);
      };
      disk.read(process, effect, done);
    },
    close(done) {
      disk.write(process, 0, false, closeNow, done);
    },
  };
}
