/**
 * A database behind a log: a group of writes is answered when it is in the log and synced, which is one write to one
 * place of the disk (log-front.ts), and comes into the database later, together with many others. What was written again
 * or removed meanwhile never gets there. Two files take turns: while one is written, what the other one has is put into
 * the database piece by piece. A read sees what is in the database and over it what is not.
 *
 *   groups -> log, sync -> answer ... rows, the last value of each key -> database, sync -> the log may be written over
 *
 * The database knows the number of the last group that it has; after a crash the rest is read from the logs.
 */
import { RemusterError } from '../base/errors.ts';
import { readGroups } from './group-log.ts';
import { type LooseRow, LooseRows, mergedEntries } from './loose-rows.ts';
import { type StoreDatabase, storeError } from './store-database.ts';
import { type LoggedCall, logPaths, type StoreAnswer, type StoreRead } from './store-messages.ts';

/** So many rows take a few milliseconds, which is what a group may have to wait for. */
const pieceRows = 500;

export class LoggedDatabase {
  readonly #database: StoreDatabase;
  #loose: LooseRows;
  /** Of the other file: on its way into the database. */
  #moving: { readonly loose: LooseRows; readonly rest: Iterator<LooseRow> } | undefined;

  constructor(database: StoreDatabase, file: string) {
    this.#database = database;
    this.#loose = new LooseRows(this.#recover(logPaths(file)));
  }

  /** Of the last group that is here, in the database or on its way into it. */
  get number(): number {
    return this.#loose.number;
  }

  /** In order. */
  perform(calls: readonly LoggedCall[]): StoreAnswer[] {
    return calls.map((call) => {
      if (call.kind === 'read') return this.#read(call);
      if (call.kind === 'turn') return this.#turnOver();
      this.#loose.number = call.number;
      for (const packed of call.packed) this.#loose.add(packed);
      return {};
    });
  }

  /** Puts a piece of what waits into the database; true: there is more. */
  work(): boolean {
    this.#loose.sort();
    try {
      this.#movePiece(pieceRows);
    } catch {
      // It stays in the log, and is tried again when somebody needs it.
      return false;
    }
    return this.#moving !== undefined;
  }

  close(): void {
    try {
      this.#settle();
    } finally {
      this.#database.close();
    }
  }

  /** What was acknowledged and is not in the database yet. The result is the number of the last group. */
  #recover(paths: readonly string[]): number {
    const applied = this.#database.number;
    const groups = paths.flatMap((path) => readGroups(path, applied)).toSorted((a, b) => a.number - b.number);
    if (groups.some(({ number }, i) => number !== applied + 1 + i)) {
      throw new RemusterError('STORE_CORRUPT', 'a part of the log of the store is missing');
    }
    const loose = new LooseRows(applied + groups.length);
    for (const { payload } of groups) loose.add(payload);
    this.#database.put(loose.values(), loose.number);
    return loose.number;
  }

  #turnOver(): StoreAnswer {
    try {
      while (this.#moving !== undefined) this.#movePiece(Infinity);
    } catch (error) {
      return { error: storeError(error) };
    }
    this.#moving = { loose: this.#loose, rest: this.#loose.values() };
    this.#loose = new LooseRows(this.#loose.number);
    return {};
  }

  #movePiece(count: number): void {
    const { loose, rest } = this.#moving ?? {};
    if (loose === undefined || rest === undefined) return;
    const piece: LooseRow[] = [];
    let isLast = false;
    while (piece.length < count && !isLast) {
      const { done, value } = rest.next();
      if (done === true) isLast = true;
      else piece.push(value);
    }
    try {
      this.#database.put(piece, isLast ? loose.number : undefined);
    } catch (error) {
      this.#moving = { loose, rest: loose.values() };
      throw error;
    }
    if (isLast) this.#moving = undefined;
  }

  /** The database has everything. */
  #settle(): void {
    while (this.#moving !== undefined) this.#movePiece(Infinity);
    if (this.#loose.isEmpty) return;
    this.#database.put(this.#loose.values(), this.#loose.number);
    this.#loose = new LooseRows(this.#loose.number);
  }

  #read({ from, to, limit }: StoreRead): StoreAnswer {
    const loose = new Map<string, LooseRow>();
    this.#moving?.loose.collect(from, to, loose);
    this.#loose.collect(from, to, loose);
    const [answer = {}] = this.#database.perform([{ kind: 'read', from, to, limit: limit + loose.size }]);
    if (loose.size === 0) return answer;
    if (answer.entries !== undefined) return { entries: mergedEntries(answer.entries, loose, limit) };
    // What is damaged there may have been written again since.
    return this.#readSettled({ kind: 'read', from, to, limit }) ?? answer;
  }

  #readSettled(call: StoreRead): StoreAnswer | undefined {
    try {
      this.#settle();
      return this.#database.perform([call])[0];
    } catch {
      return undefined;
    }
  }
}
