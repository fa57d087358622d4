/**
 * Deletes rows of slots that no meta row names, a few at a time, one container after the other. Resumes after a crash.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Clock, StoreEntry } from '../../base/ports.ts';
import type { ReplicaStore } from './replica-store.ts';
import { replicaRows, prefixOfRow, slotRows } from './replica-layout.ts';

const rowsMax = 128;
const pauseMs = 2;
const retryMs = 1_000;

export class SlotGarbageCollector {
  readonly #clock: Clock;
  /** In the order in which they were wished for. */
  readonly #waiting = new Map<ReplicaStore, (() => void)[]>();
  #isBusy = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** `done` when nothing but what is needed is left, after as many tries as it takes. */
  collect(holding: ReplicaStore, done?: () => void): void {
    const known = this.#waiting.get(holding);
    if (known === undefined) this.#waiting.set(holding, done === undefined ? [] : [done]);
    else if (done !== undefined) known.push(done);
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#clock.schedule(pauseMs, () => this.#next());
  }

  #next(): void {
    const [first] = this.#waiting;
    this.#isBusy = first !== undefined;
    if (first === undefined) return;
    const [holding, ends] = first;
    this.#waiting.delete(holding);
    const { from } = replicaRows(holding.pool, holding.container);
    // Mostly there is nothing to do, and the first row says so.
    this.#step(holding, from, 1, (error) => {
      if (error === undefined) for (const end of ends) end();
      // Damaged rows cannot even be told apart: what is left there is tried again at the next start.
      else if (error.code !== 'STORE_CORRUPT')
        this.#waiting.set(holding, ends.concat(this.#waiting.get(holding) ?? []));
      this.#clock.schedule(error === undefined ? pauseMs : retryMs, () => this.#next());
    });
  }

  #step(holding: ReplicaStore, from: string, limit: number, done: (error: RemusterError | undefined) => void): void {
    const { to } = replicaRows(holding.pool, holding.container);
    if (holding.isErased) return done(undefined);
    holding.shelf.store.read({ from, to, limit }, (outcome) => {
      if (!outcome.ok) return done(outcome.error);
      const entries = outcome.value;
      const [keys, next] = garbageOf(holding, entries);
      this.#delete(holding, keys, (error) => {
        if (error !== undefined || (entries.length < limit && next === undefined)) return done(error);
        this.#clock.schedule(pauseMs, () => this.#step(holding, next ?? from, limitFor(entries), done));
      });
    });
  }

  /** In a turn, and looked at again: a snapshot may have begun in that slot meanwhile. */
  #delete(holding: ReplicaStore, keys: readonly string[], done: (error: RemusterError | undefined) => void): void {
    if (keys.length === 0) return done(undefined);
    const isTaken = holding.runExclusive((over, error) => {
      const isGarbage = (key: string): boolean => !holding.isErased && !holding.isNeeded(prefixOfRow(key));
      const rows = keys.filter(isGarbage).map((key) => ({ key, value: null }));
      const end = (failed: RemusterError | undefined): void => {
        over();
        done(failed);
      };
      if (error !== undefined || rows.length === 0) return end(error);
      holding.shelf.journal.write(rows, rows.length * rowBytes, (outcome) =>
        end(outcome.ok ? undefined : outcome.error),
      );
    });
    if (!isTaken) done(new RemusterError('CAPACITY'));
  }
}

const rowBytes = 64;
/** Rows come with their values, and those may be large. */
const readBytesMax = 4 * 2 ** 20;

function limitFor(entries: readonly StoreEntry[]): number {
  let bytes = 0;
  for (const { value } of entries) bytes += value.length;
  return bytes > readBytesMax ? Math.max(1, entries.length >> 2) : rowsMax;
}

/** What can be deleted before the first slot that is needed, and where to look next: behind that slot, if there is one. */
function garbageOf(holding: ReplicaStore, entries: readonly StoreEntry[]): [keys: string[], next: string | undefined] {
  const keys: string[] = [];
  for (const { key } of entries) {
    const prefix = prefixOfRow(key);
    if (holding.isNeeded(prefix)) return [keys, slotRows(prefix).to];
    keys.push(key);
  }
  return [keys, undefined];
}
