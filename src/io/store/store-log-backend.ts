/**
 * Backend with a write-ahead log: a group is acknowledged when the log has it. Reports the log's end to the store
 * thread before each read.
 *
 * Two files take turns: when one is full, the thread is told to put its rows into the database; the other one may be
 * written over when the thread has answered that what it had is in there.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import { type BufferedStoreCall, StoreCallBuffer, type BufferedWrite } from './call-buffer.ts';
import { StoreLogFile } from './store-log-file.ts';
import { syncDirectoryOf } from './store-database.ts';
import type { OnStoreReplies, StoreBackend } from './store-backend.ts';
import { type StoreBatch, type StoreLogCall, logPaths, type StoreReply, type StoreRead } from './store-protocol.ts';

/** Calls that stand behind each other: from one up to another. */
type Run = { readonly first: number; readonly end: number };
type Ended = (error: RemusterError | undefined) => void;

const logBytesMax = 8 * 2 ** 20;
/** What goes into one record, unless a single write has more: who reads the log has a whole record in memory. */
const recordBytesMax = 4 * 2 ** 20;
/** After so much the thread is told, and reads it while nobody waits for it. A read finds at most as much untold. */
const tellBytesMin = 512 * 2 ** 10;
const isWritten: StoreReply = {};

export class StoreLogBackend implements StoreBackend {
  readonly #ask: (calls: readonly StoreLogCall[]) => void;
  /** Who waits for what the thread was asked, in order. As many as a full log has tellings, and one. */
  readonly #asked: OnStoreReplies[] = [];
  /** The two take turns. */
  #underWay = new StoreCallBuffer();
  #gathering = new StoreCallBuffer();
  #log: StoreLogFile;
  #otherLog: StoreLogFile;
  /** Of the last group in the log. */
  #number: number;
  /** How much of the log the thread knows. */
  #toldBytes = 0;
  #isAppending = false;
  #isOver = false;
  /** Nothing can be written any more. */
  #broken: RemusterError | undefined;

  /** `number` is that of the last group in the database. What the files have is in there. */
  constructor(file: string, number: number, ask: (calls: readonly StoreLogCall[]) => void) {
    const [first, second] = logPaths(file);
    this.#ask = ask;
    this.#number = number;
    this.#log = new StoreLogFile(first);
    this.#otherLog = new StoreLogFile(second);
    syncDirectoryOf(file);
  }

  write(batch: StoreBatch): number {
    return this.#gathering.write(batch);
  }

  read(call: StoreRead): void {
    this.#gathering.read(call);
  }

  perform(done: OnStoreReplies): void {
    [this.#underWay, this.#gathering] = [this.#gathering, this.#underWay];
    this.#performRest([], (answers) => {
      this.#underWay.clear();
      done(answers);
    });
  }

  replied(answers: readonly StoreReply[]): void {
    const asked = this.#asked.shift();
    assert(asked !== undefined, 'the store thread answers what it was asked');
    asked(answers);
  }

  closing(): void {
    this.#reportLogEnd();
  }

  closed(): void {
    this.#isOver = true;
    this.#log.remove();
    this.#otherLog.remove();
  }

  /** What is in the files stays for the next start. */
  threadLost(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.#isAppending) this.#closeFiles();
  }

  #closeFiles(): void {
    this.#log.close();
    this.#otherLog.close();
  }

  /** One run after the other; those that have answers are done. */
  #performRest(answers: StoreReply[], done: OnStoreReplies): void {
    const { calls } = this.#underWay;
    const run = { first: answers.length, end: endOfRun(calls, answers.length) };
    if (run.first === calls.length) return done(answers);
    if (calls[run.first]?.kind === 'write') {
      return this.#write(run, answers, () => this.#performRest(answers, done));
    }
    this.#reportLogEnd();
    this.#asked.push((found) => {
      for (const answer of found) answers.push(answer);
      this.#performRest(answers, done);
    });
    this.#ask(calls.slice(run.first, run.end) as StoreRead[]);
  }

  /** Adds an answer for each. */
  #write(run: Run, answers: StoreReply[], done: () => void): void {
    const ended: Ended = (error) => {
      if (error !== undefined && this.#broken === undefined && run.end - run.first > 1) {
        return this.#writeAlone(run, answers, done);
      }
      const answer = error === undefined ? isWritten : { error: { code: error.code, message: error.message } };
      for (let at = run.first; at < run.end; at++) answers.push(answer);
      done();
    };
    if (this.#broken !== undefined) return ended(this.#broken);
    if (this.#log.bytes < logBytesMax) return this.#append(run, ended);
    this.#switchFile((error) => (error === undefined ? this.#append(run, ended) : ended(error)));
  }

  /** So that one which does not fit fails alone. */
  #writeAlone({ first, end }: Run, answers: StoreReply[], done: () => void): void {
    if (first === end) return done();
    // When nothing can be written any more there is nothing to find out.
    if (this.#broken !== undefined) return this.#write({ first, end }, answers, done);
    this.#write({ first, end: first + 1 }, answers, () => this.#writeAlone({ first: first + 1, end }, answers, done));
  }

  #append({ first, end }: Run, ended: Ended): void {
    const { calls } = this.#underWay;
    const packed = this.#underWay.packed((calls[first] as BufferedWrite).start, (calls[end - 1] as BufferedWrite).end);
    this.#isAppending = true;
    this.#log.append(this.#number + 1, packed, (error) => {
      this.#isAppending = false;
      if (this.#isOver) return this.#closeFiles();
      if (error?.code === 'STORE_FAILED') this.#broken = error;
      if (error === undefined) this.#number += 1;
      if (this.#log.bytes - this.#toldBytes >= tellBytesMin) this.#reportLogEnd();
      ended(error);
    });
  }

  /** The thread knows everything now. */
  #reportLogEnd(): void {
    if (this.#log.bytes === this.#toldBytes) return;
    this.#toldBytes = this.#log.bytes;
    this.#asked.push(() => {});
    this.#ask([{ kind: 'rows', number: this.#number, bytes: this.#toldBytes }]);
  }

  #switchFile(ended: Ended): void {
    this.#reportLogEnd();
    this.#asked.push(([answer]) => {
      const error = answer?.error;
      if (error !== undefined) return ended(new RemusterError(error.code, error.message));
      [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
      this.#log.reuse(2 * logBytesMax);
      this.#toldBytes = 0;
      ended(undefined);
    });
    this.#ask([{ kind: 'turn' }]);
  }
}

/** Reads, or writes that go into one record. */
function endOfRun(calls: readonly BufferedStoreCall[], first: number): number {
  const call = calls[first];
  let end = first + 1;
  if (call?.kind === 'read') {
    while (calls[end]?.kind === 'read') end += 1;
    return end;
  }
  if (call === undefined) return first;
  for (; end < calls.length; end++) {
    const next = calls[end] as BufferedStoreCall;
    if (next.kind === 'read' || next.end - call.start > recordBytesMax) break;
  }
  return end;
}
