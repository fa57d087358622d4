/**
 * Deletes the rows of slots that are neither valid nor being received: a few rows at a time, one container after the
 * other. It keeps no state on disk, so it resumes after a crash.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Clock, StoreEntry } from '../../base/ports.ts';
import type { ReplicaStore } from './replica-store.ts';
import { replicaRows, prefixOfRow, slotRows } from './replica-layout.ts';

const rowsMax = 128;
const stepDelayMs = 2;
const retryDelayMs = 1_000;

export class SlotGarbageCollector {
  readonly #clock: Clock;
  /** In order of request. */
  readonly #waiting = new Map<ReplicaStore, (() => void)[]>();
  #isBusy = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Retries until no unneeded row is left, then calls `done`. */
  collect(replica: ReplicaStore, done?: () => void): void {
    const known = this.#waiting.get(replica);
    if (known === undefined) this.#waiting.set(replica, done === undefined ? [] : [done]);
    else if (done !== undefined) known.push(done);
    if (this.#isBusy) return;
    this.#isBusy = true;
    this.#clock.schedule(stepDelayMs, () => this.#next());
  }

  #next(): void {
    const [first] = this.#waiting;
    this.#isBusy = first !== undefined;
    if (first === undefined) return;
    const [replica, ends] = first;
    this.#waiting.delete(replica);
    const { from } = replicaRows(replica.pool, replica.container);
    // Usually the first row shows that there is nothing to delete.
    this.#step(replica, from, 1, (error) => {
      if (error === undefined) for (const end of ends) end();
      // Damaged rows cannot be listed: the next start of the node tries again.
      else if (error.code !== 'STORE_CORRUPT')
        this.#waiting.set(replica, ends.concat(this.#waiting.get(replica) ?? []));
      this.#clock.schedule(error === undefined ? stepDelayMs : retryDelayMs, () => this.#next());
    });
  }

  #step(replica: ReplicaStore, from: string, limit: number, done: (error: RemusterError | undefined) => void): void {
    const { to } = replicaRows(replica.pool, replica.container);
    if (replica.isErased) return done(undefined);
    replica.storage.store.read({ from, to, limit }, (outcome) => {
      if (!outcome.ok) return done(outcome.error);
      const entries = outcome.value;
      const [keys, next] = garbageOf(replica, entries);
      this.#delete(replica, keys, (error) => {
        if (error !== undefined || (entries.length < limit && next === undefined)) return done(error);
        this.#clock.schedule(stepDelayMs, () => this.#step(replica, next ?? from, limitFor(entries), done));
      });
    });
  }

  /** Checks each row again inside the exclusive operation: a snapshot may have started in that slot since the read. */
  #delete(replica: ReplicaStore, keys: readonly string[], done: (error: RemusterError | undefined) => void): void {
    if (keys.length === 0) return done(undefined);
    const isAccepted = replica.runExclusive((release, error) => {
      const isGarbage = (key: string): boolean => !replica.isErased && !replica.isNeeded(prefixOfRow(key));
      const rows = keys.filter(isGarbage).map((key) => ({ key, value: null }));
      const end = (failed: RemusterError | undefined): void => {
        release();
        done(failed);
      };
      if (error !== undefined || rows.length === 0) return end(error);
      replica.storage.groupCommit.write(rows, rows.length * rowBytes, (outcome) =>
        end(outcome.ok ? undefined : outcome.error),
      );
    });
    if (!isAccepted) done(new RemusterError('CAPACITY'));
  }
}

const rowBytes = 64;
/** A read returns the values too, and they may be large. */
const readBytesMax = 4 * 2 ** 20;

function limitFor(entries: readonly StoreEntry[]): number {
  let bytes = 0;
  for (const { value } of entries) bytes += value.length;
  return bytes > readBytesMax ? Math.max(1, entries.length >> 2) : rowsMax;
}

/** The rows to delete before the first needed slot, and the key after that slot, if there is one. */
function garbageOf(replica: ReplicaStore, entries: readonly StoreEntry[]): [keys: string[], next: string | undefined] {
  const keys: string[] = [];
  for (const { key } of entries) {
    const prefix = prefixOfRow(key);
    if (replica.isNeeded(prefix)) return [keys, slotRows(prefix).to];
    keys.push(key);
  }
  return [keys, undefined];
}
