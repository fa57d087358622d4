/**
 * Reads the rows of one slot page by page in key order. The store limits rows, not bytes, so the row limit adapts to
 * the sizes found; a page exceeds its bytes only if a single row does.
 */
import { type Done, success } from '../../base/errors.ts';
import type { Store, StoreEntry } from '../../base/ports.ts';
import type { StateEntry } from '../contract.ts';
import { slotRows } from './replica-layout.ts';

export type StatePage = { readonly entries: readonly StateEntry[]; readonly isLast: boolean };

const rowsMin = 1;
const rowsMax = 2_048;

export class StateReader {
  readonly #store: Pick<Store, 'read'>;
  readonly #prefix: string;
  readonly #bytesMax: number;
  #rows = 64;

  constructor(store: Pick<Store, 'read'>, prefix: string, bytesMax: number) {
    this.#store = store;
    this.#prefix = prefix;
    this.#bytesMax = bytesMax;
  }

  /** The page after that key; the first page without one. */
  page(after: string | undefined, done: Done<StatePage>): void {
    const { from, to } = slotRows(this.#prefix);
    const limit = this.#rows;
    this.#store.read({ from: after === undefined ? from : `${from}${after}\0`, to, limit }, (outcome) => {
      done(outcome.ok ? success(this.#pageOf(outcome.value, limit)) : outcome);
    });
  }

  /** All rows, in key order. */
  all(done: Done<readonly StateEntry[]>): void {
    const found: StateEntry[] = [];
    const readAfter = (after: string | undefined): void => {
      this.page(after, (outcome) => {
        if (!outcome.ok) return done(outcome);
        const { entries, isLast } = outcome.value;
        for (const entry of entries) found.push(entry);
        if (isLast) done(success(found));
        else readAfter(entries.at(-1)?.key);
      });
    };
    readAfter(undefined);
  }

  #pageOf(rows: readonly StoreEntry[], limit: number): StatePage {
    const entries: StateEntry[] = [];
    let bytes = 0;
    for (const { key, value } of rows) {
      bytes += key.length + value.length;
      if (entries.length > 0 && bytes > this.#bytesMax) break;
      entries.push({ key: key.slice(this.#prefix.length), value });
    }
    if (entries.length < rows.length) this.#rows = Math.max(rowsMin, entries.length);
    else if (bytes * 2 < this.#bytesMax) this.#rows = Math.min(rowsMax, limit * 2);
    return { entries, isLast: entries.length === rows.length && rows.length < limit };
  }
}
