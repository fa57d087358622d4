/**
 * The database behind the log, in the store thread: checkpoints one log file in steps while the other is written. Reads
 * see both. Not SQLite's own WAL mode.
 *
 *   groups -> log, sync -> answer ... rows, the last value of each key -> database, sync -> the log may be written over
 *
 * The database knows the number of the last group that it has; after a crash the rest is read from the logs.
 */
import { RemusterError } from '../../base/errors.ts';
import { readStoreLogGroups } from './store-log-file.ts';
import { StoreLogReader } from './store-log-reader.ts';
import { type StoreLogRowRef, type StoreLogRow, StoreLogIndex } from './store-log-index.ts';
import { tombstoneCount, mergeWithLog } from './merged-read.ts';
import { type StoreDatabase, storeError } from './store-database.ts';
import {
  keyBytes,
  type StoreLogCall,
  logPaths,
  type StoreReply,
  type StoreRead,
  valueAt,
  visitBatch,
} from './store-protocol.ts';

/** So many rows take a few milliseconds, which is what a group may have to wait for. */
const pieceRows = 500;

/** `rows`: all of them, once somebody has looked; those before `next` are in the database. */
type Checkpoint = {
  readonly loose: StoreLogIndex;
  rows: readonly (readonly [string, number])[] | undefined;
  next: number;
};

export class CheckpointedDatabase {
  readonly #database: StoreDatabase;
  #loose: StoreLogIndex;
  /** Of the other file: on its way into the database. */
  #moving: Checkpoint | undefined;
  /** Of the file of `#loose`, and of the other one. */
  #reader: StoreLogReader;
  #otherReader: StoreLogReader;

  constructor(database: StoreDatabase, file: string) {
    const [first, second] = logPaths(file);
    this.#database = database;
    this.#reader = new StoreLogReader(first);
    this.#otherReader = new StoreLogReader(second);
    this.#loose = new StoreLogIndex(this.#reader, this.#recover([first, second]));
  }

  /** Of the last group that is here, in the database or on its way into it. */
  get number(): number {
    return this.#loose.number;
  }

  /** In order. */
  perform(calls: readonly StoreLogCall[]): StoreReply[] {
    return calls.map((call) => {
      if (call.kind === 'read') return this.#read(call);
      if (call.kind === 'turn') return this.#turnOver();
      this.#loose.extendTo(call.number, call.bytes);
      return {};
    });
  }

  /** Puts a piece of what waits into the database; true: there is more. */
  checkpointStep(): boolean {
    try {
      this.#loose.index();
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
      this.#reader.close();
      this.#otherReader.close();
      this.#database.close();
    }
  }

  /** What was acknowledged and is not in the database yet. The result is the number of the last group. */
  #recover(paths: readonly string[]): number {
    const applied = this.#database.number;
    const groups = paths.flatMap((path) => readStoreLogGroups(path, applied)).toSorted((a, b) => a.number - b.number);
    if (groups.some(({ number }, i) => number !== applied + 1 + i)) {
      throw new RemusterError('STORE_CORRUPT', 'a part of the log of the store is missing');
    }
    const rows = new Map<string, StoreLogRow>();
    for (const { payload } of groups) {
      visitBatch(payload, (key, at) => rows.set(key, { key: keyBytes(key), value: valueAt(payload, at) }));
    }
    this.#database.put(rows.values(), applied + groups.length);
    return applied + groups.length;
  }

  #turnOver(): StoreReply {
    try {
      while (this.#moving !== undefined) this.#movePiece(Infinity);
    } catch (error) {
      return { error: storeError(error) };
    }
    this.#moving = { loose: this.#loose, rows: undefined, next: 0 };
    [this.#reader, this.#otherReader] = [this.#otherReader, this.#reader];
    this.#loose = new StoreLogIndex(this.#reader, this.#loose.number);
    return {};
  }

  #movePiece(count: number): void {
    const moving = this.#moving;
    if (moving === undefined) return;
    const { loose, next } = moving;
    // If this fails, all of it is tried again.
    moving.next = 0;
    moving.rows ??= loose.inOrder();
    const end = next + count;
    const isLast = end >= moving.rows.length;
    this.#database.put(loose.read(moving.rows.slice(next, end)), isLast ? loose.number : undefined);
    moving.next = end;
    if (!isLast) return;
    loose.reset();
    this.#moving = undefined;
  }

  /** The database has everything. */
  #settle(): void {
    while (this.#moving !== undefined) this.#movePiece(Infinity);
    if (this.#loose.isEmpty) return;
    this.#database.put(this.#loose.read(this.#loose.inOrder()), this.#loose.number);
    this.#loose.reset();
  }

  #read({ from, to, limit }: StoreRead): StoreReply {
    try {
      const loose = new Map<string, StoreLogRowRef>();
      this.#moving?.loose.collect(from, to, loose);
      this.#loose.collect(from, to, loose);
      const [answer = {}] = this.#database.perform([{ kind: 'read', from, to, limit: limit + tombstoneCount(loose) }]);
      if (loose.size === 0) return answer;
      if (answer.entries !== undefined) return { entries: mergeWithLog(answer.entries, loose, limit) };
      // What is damaged there may have been written again since.
      return this.#readSettled({ kind: 'read', from, to, limit }) ?? answer;
    } catch (error) {
      return { error: storeError(error) };
    }
  }

  #readSettled(call: StoreRead): StoreReply | undefined {
    try {
      this.#settle();
      return this.#database.perform([call])[0];
    } catch {
      return undefined;
    }
  }
}
