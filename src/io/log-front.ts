/**
 * The log before a database, on the side of those who write. A group of writes is answered when it is in the log, which
 * is one call of the system and no message to another thread. What is in the log goes to the thread of the database
 * (logged-database.ts) later, many groups together, and always before it is asked for anything.
 *
 * Two files take turns: when one is full, the thread is told to put its rows into the database; the other one may be
 * written over when the thread has answered that what it had is in there.
 */
import { assert } from '../base/assert.ts';
import { RemusterError } from '../base/errors.ts';
import { GroupLog } from './group-log.ts';
import { syncDirectoryOf } from './store-database.ts';
import {
  type LoggedCall,
  logPaths,
  type StoreAnswer,
  type StoreCall,
  type StoreRead,
  type StoreWriteCall,
} from './store-messages.ts';

type Answered = (answers: readonly StoreAnswer[]) => void;

const logBytesMax = 8 * 2 ** 20;
/** So much is told to the thread at once. */
const tellBytesMin = 256 * 2 ** 10;

export class LogFront {
  readonly #ask: (calls: readonly LoggedCall[]) => void;
  /** Who waits for what the thread was asked, in order. As many as a full log has tellings, and one. */
  readonly #asked: Answered[] = [];
  #log: GroupLog;
  #otherLog: GroupLog;
  /** Of the last group in the log. */
  #number: number;
  /** What the thread does not know yet. */
  #untold: Uint8Array[] = [];
  #untoldBytes = 0;
  #isAppending = false;
  #isOver = false;
  /** Nothing can be written any more. */
  #broken: RemusterError | undefined;

  /** `number` is that of the last group in the database. What the files have is in there. */
  constructor(file: string, number: number, ask: (calls: readonly LoggedCall[]) => void) {
    const [first, second] = logPaths(file);
    this.#ask = ask;
    this.#number = number;
    this.#log = new GroupLog(first);
    this.#otherLog = new GroupLog(second);
    syncDirectoryOf(file);
  }

  /** In order; the next calls come when these are answered. */
  perform(calls: readonly StoreCall[], done: (answers: StoreAnswer[]) => void): void {
    const answers: StoreAnswer[] = [];
    const go = (): void => {
      const from = answers.length;
      const isWrite = calls[from]?.kind === 'write';
      const to = calls.findIndex(({ kind }, at) => at > from && (kind === 'write') !== isWrite);
      const some = calls.slice(from, to < 0 ? calls.length : to);
      if (some.length === 0) return done(answers);
      const performed: Answered = (part) => {
        for (const answer of part) answers.push(answer);
        go();
      };
      if (isWrite) this.#write(some as readonly StoreWriteCall[], performed);
      else this.#read(some as readonly StoreRead[], performed);
    };
    go();
  }

  /** The thread has answered what it was asked first. */
  answered(answers: readonly StoreAnswer[]): void {
    const asked = this.#asked.shift();
    assert(asked !== undefined, 'the store thread answers what it was asked');
    asked(answers);
  }

  /** The thread knows everything now. */
  tell(): void {
    if (this.#untold.length === 0) return;
    this.#asked.push(() => {});
    this.#ask([this.#rows()]);
  }

  /** The database has everything. */
  close(): void {
    this.#isOver = true;
    this.#log.remove();
    this.#otherLog.remove();
  }

  /** The thread is gone: nothing is answered any more. What is in the files stays for the next start. */
  abandon(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.#isAppending) this.#closeFiles();
  }

  #closeFiles(): void {
    this.#log.close();
    this.#otherLog.close();
  }

  #rows(): LoggedCall {
    const packed = this.#untold;
    this.#untold = [];
    this.#untoldBytes = 0;
    return { kind: 'rows', number: this.#number, packed };
  }

  #read(reads: readonly StoreRead[], done: Answered): void {
    this.tell();
    this.#asked.push(done);
    this.#ask(reads);
  }

  #write(writes: readonly StoreWriteCall[], done: Answered): void {
    const failed = (error: RemusterError): void => {
      const { code, message } = error;
      if (writes.length === 1 || this.#broken !== undefined) done(writes.map(() => ({ error: { code, message } })));
      else this.#writeAlone(writes, done);
    };
    if (this.#broken !== undefined) return failed(this.#broken);
    if (this.#log.bytes >= logBytesMax) {
      return this.#turnOver((error) => (error === undefined ? this.#append(writes, done, failed) : failed(error)));
    }
    this.#append(writes, done, failed);
  }

  #append(writes: readonly StoreWriteCall[], done: Answered, failed: (error: RemusterError) => void): void {
    const packed = writes.map((write) => write.packed);
    this.#isAppending = true;
    this.#log.append(this.#number + 1, packed, (error) => {
      this.#isAppending = false;
      if (this.#isOver) return this.#closeFiles();
      if (error?.code === 'STORE_FAILED') this.#broken = error;
      if (error !== undefined) return failed(error);
      this.#number += 1;
      for (const part of packed) {
        this.#untold.push(part);
        this.#untoldBytes += part.length;
      }
      if (this.#untoldBytes >= tellBytesMin) this.tell();
      done(writes.map(() => ({})));
    });
  }

  /** So that one which does not fit fails alone. */
  #writeAlone(writes: readonly StoreWriteCall[], done: Answered): void {
    const answers: StoreAnswer[] = [];
    const next = (): void => {
      const write = writes[answers.length];
      if (write === undefined) return done(answers);
      this.#write([write], ([answer = {}]) => {
        answers.push(answer);
        next();
      });
    };
    next();
  }

  #turnOver(ended: (error: RemusterError | undefined) => void): void {
    this.tell();
    this.#asked.push(([answer]) => {
      const error = answer?.error;
      if (error !== undefined) return ended(new RemusterError(error.code, error.message));
      [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
      this.#log.rewind(2 * logBytesMax);
      ended(undefined);
    });
    this.#ask([{ kind: 'turn' }]);
  }
}
