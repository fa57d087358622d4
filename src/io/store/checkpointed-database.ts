/**
 * The database behind the log, in the store thread: checkpoints one log file in steps while the other is written. Reads
 * see both. Not SQLite's own WAL mode.
 *
 *   write:      group -> log, sync -> reply
 *   checkpoint: last value of each key in the log -> database, sync -> the log file may be reused
 *
 * The database stores the number of the last group that it has; recovery reads the later groups from the logs.
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

/** One step takes a few milliseconds, and a group may have to wait for it. */
const stepRows = 500;

/** A checkpoint in progress. `rows` are loaded by the first step; those before `next` are in the database. */
type Checkpoint = {
  readonly index: StoreLogIndex;
  rows: readonly (readonly [string, number])[] | undefined;
  next: number;
};

export class CheckpointedDatabase {
  readonly #database: StoreDatabase;
  /** Index of the file that is being written. */
  #index: StoreLogIndex;
  /** Of the other file. */
  #checkpoint: Checkpoint | undefined;
  /** Readers of the file that is being written, and of the other one. */
  #reader: StoreLogReader;
  #otherReader: StoreLogReader;

  constructor(database: StoreDatabase, file: string) {
    const [first, second] = logPaths(file);
    this.#database = database;
    this.#reader = new StoreLogReader(first);
    this.#otherReader = new StoreLogReader(second);
    this.#index = new StoreLogIndex(this.#reader, this.#recover([first, second]));
  }

  /** Number of the last group, in the database or in a log. */
  get number(): number {
    return this.#index.number;
  }

  /** Executes the calls in order. */
  perform(calls: readonly StoreLogCall[]): StoreReply[] {
    return calls.map((call) => {
      if (call.kind === 'read') return this.#read(call);
      if (call.kind === 'switchFile') return this.#switchFile();
      this.#index.extendTo(call.number, call.bytes);
      return {};
    });
  }

  /** Moves up to 500 rows of the checkpoint into the database. True: more rows remain. */
  checkpointStep(): boolean {
    try {
      this.#index.update();
      this.#moveRows(stepRows);
    } catch {
      // The rows stay in the log. The next file switch retries and reports the error.
      return false;
    }
    return this.#checkpoint !== undefined;
  }

  close(): void {
    try {
      this.#checkpointAll();
    } finally {
      this.#reader.close();
      this.#otherReader.close();
      this.#database.close();
    }
  }

  /** Moves the acknowledged groups that the database lacks from the logs into it. Returns the last group number. */
  #recover(paths: readonly string[]): number {
    const applied = this.#database.number;
    const groups = paths.flatMap((path) => readStoreLogGroups(path, applied)).toSorted((a, b) => a.number - b.number);
    if (groups.some(({ number }, i) => number !== applied + 1 + i)) {
      throw new RemusterError('STORE_CORRUPT', 'groups are missing in the log of the store');
    }
    const rows = new Map<string, StoreLogRow>();
    for (const { payload } of groups) {
      visitBatch(payload, (key, at) => rows.set(key, { key: keyBytes(key), value: valueAt(payload, at) }));
    }
    this.#database.put(rows.values(), applied + groups.length);
    return applied + groups.length;
  }

  #switchFile(): StoreReply {
    try {
      while (this.#checkpoint !== undefined) this.#moveRows(Infinity);
    } catch (error) {
      return { error: storeError(error) };
    }
    this.#checkpoint = { index: this.#index, rows: undefined, next: 0 };
    [this.#reader, this.#otherReader] = [this.#otherReader, this.#reader];
    this.#index = new StoreLogIndex(this.#reader, this.#index.number);
    return {};
  }

  #moveRows(count: number): void {
    const checkpoint = this.#checkpoint;
    if (checkpoint === undefined) return;
    const { index, next } = checkpoint;
    // If this step fails, the next one starts with the first row again.
    checkpoint.next = 0;
    checkpoint.rows ??= index.inOrder();
    const end = next + count;
    const isLast = end >= checkpoint.rows.length;
    this.#database.put(index.read(checkpoint.rows.slice(next, end)), isLast ? index.number : undefined);
    checkpoint.next = end;
    if (!isLast) return;
    index.reset();
    this.#checkpoint = undefined;
  }

  /** Moves all rows of both files, so that the database alone has everything. */
  #checkpointAll(): void {
    while (this.#checkpoint !== undefined) this.#moveRows(Infinity);
    if (this.#index.isEmpty) return;
    this.#database.put(this.#index.read(this.#index.inOrder()), this.#index.number);
    this.#index.reset();
  }

  #read({ from, to, limit }: StoreRead): StoreReply {
    try {
      const logRows = new Map<string, StoreLogRowRef>();
      this.#checkpoint?.index.collect(from, to, logRows);
      this.#index.collect(from, to, logRows);
      const databaseLimit = limit + tombstoneCount(logRows);
      const [reply = {}] = this.#database.perform([{ kind: 'read', from, to, limit: databaseLimit }]);
      if (logRows.size === 0) return reply;
      if (reply.entries !== undefined) return { entries: mergeWithLog(reply.entries, logRows, limit) };
      // A damaged row of the database may have a newer value in the log.
      return this.#readAfterCheckpoint({ kind: 'read', from, to, limit }) ?? reply;
    } catch (error) {
      return { error: storeError(error) };
    }
  }

  #readAfterCheckpoint(call: StoreRead): StoreReply | undefined {
    try {
      this.#checkpointAll();
      return this.#database.perform([call])[0];
    } catch {
      return undefined;
    }
  }
}
