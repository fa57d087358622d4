/**
 * A database behind a log: a group of writes is answered when it is in the log and synced, which is one write to one
 * place of the disk, and comes into the database later, together with many others. What was written again or removed
 * meanwhile never gets there. Two files take turns: while one is written, what the other one has is put into the
 * database piece by piece. A read sees what is in the database and over it what is not.
 *
 *   groups -> log, sync -> answer ... rows, the last value of each key -> database, sync -> the log may be written over
 *
 * The database knows the number of the last group that it has; after a crash the rest is read from the logs.
 */
import { RemusterError } from '../base/errors.ts';
import { GroupLog, readGroups } from './group-log.ts';
import { type LooseRow, LooseRows, mergedEntries } from './loose-rows.ts';
import { type StoreDatabase, storeError, syncDirectoryOf } from './store-database.ts';
import type { StoreAnswer, StoreCall } from './store-messages.ts';

type Write = Extract<StoreCall, { readonly kind: 'write' }>;
type Read = Extract<StoreCall, { readonly kind: 'read' }>;

const logBytesMax = 8 * 2 ** 20;
/** So many rows take a few milliseconds, which is what a group may have to wait for. */
const pieceRows = 500;

export class LoggedDatabase {
  readonly #database: StoreDatabase;
  #log: GroupLog;
  #otherLog: GroupLog;
  #number: number;
  #loose: LooseRows;
  /** Of the other file: on its way into the database. */
  #moving: { readonly loose: LooseRows; readonly rest: Iterator<LooseRow> } | undefined;
  /** Nothing can be written any more. */
  #broken: RemusterError | undefined;

  constructor(database: StoreDatabase, file: string) {
    this.#database = database;
    const paths = [`${file}-log0`, `${file}-log1`] as const;
    this.#number = this.#recover(paths);
    this.#loose = new LooseRows(this.#number);
    this.#log = new GroupLog(paths[0]);
    this.#otherLog = new GroupLog(paths[1]);
    syncDirectoryOf(file);
  }

  /** In order. */
  perform(calls: readonly StoreCall[]): StoreAnswer[] {
    const answers: StoreAnswer[] = [];
    let writes: Write[] = [];
    for (const call of calls) {
      if (call.kind === 'write') {
        writes.push(call);
        continue;
      }
      if (writes.length > 0) answers.push(...this.#write(writes));
      writes = [];
      answers.push(this.#read(call));
    }
    if (writes.length > 0) answers.push(...this.#write(writes));
    return answers;
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
      this.#log.close();
      this.#otherLog.close();
    } finally {
      this.#database.close();
    }
  }

  /** What was acknowledged and is not in the database yet. The result is the number of the last group. */
  #recover(paths: readonly string[]): number {
    const applied = this.#database.applied;
    const groups = paths.flatMap((path) => readGroups(path, applied)).toSorted((a, b) => a.number - b.number);
    if (groups.some(({ number }, i) => number !== applied + 1 + i)) {
      throw new RemusterError('STORE_CORRUPT', 'a part of the log of the store is missing');
    }
    const loose = new LooseRows(applied + groups.length);
    for (const { payload } of groups) loose.add(payload);
    this.#database.put(loose.values(), loose.number);
    return loose.number;
  }

  #write(writes: readonly Write[]): StoreAnswer[] {
    try {
      this.#append(writes);
      return writes.map(() => ({}));
    } catch (error) {
      const [only] = writes;
      if (writes.length === 1 && only !== undefined) return [{ error: storeError(error) }];
    }
    // So that one which does not fit fails alone.
    return writes.flatMap((write) => this.#write([write]));
  }

  #append(writes: readonly Write[]): void {
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#log.bytes >= logBytesMax) this.#turnOver();
    try {
      this.#log.append(
        this.#number + 1,
        writes.map(({ packed }) => packed),
      );
    } catch (error) {
      if (error instanceof RemusterError && error.code === 'STORE_FAILED') this.#broken = error;
      throw error;
    }
    this.#number += 1;
    this.#loose.number = this.#number;
    for (const { packed } of writes) this.#loose.add(packed);
  }

  #turnOver(): void {
    while (this.#moving !== undefined) this.#movePiece(Infinity);
    this.#moving = { loose: this.#loose, rest: this.#loose.values() };
    this.#loose = new LooseRows(this.#number);
    [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
    this.#log.rewind(2 * logBytesMax);
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
    this.#loose = new LooseRows(this.#number);
    this.#log.rewind(2 * logBytesMax);
  }

  #read({ from, to, limit }: Read): StoreAnswer {
    const loose = new Map<string, LooseRow>();
    this.#moving?.loose.collect(from, to, loose);
    this.#loose.collect(from, to, loose);
    const [answer = {}] = this.#database.perform([{ kind: 'read', from, to, limit: limit + loose.size }]);
    if (loose.size === 0) return answer;
    if (answer.entries !== undefined) return { entries: mergedEntries(answer.entries, loose, limit) };
    // What is damaged there may have been written again since.
    return this.#readSettled({ kind: 'read', from, to, limit }) ?? answer;
  }

  #readSettled(call: Read): StoreAnswer | undefined {
    try {
      this.#settle();
      return this.#database.perform([call])[0];
    } catch {
      return undefined;
    }
  }
}
