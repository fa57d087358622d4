/**
 * Backend with a write-ahead log: a group is acknowledged when it is durable in the log. The store thread learns the
 * end of the log before each read. There are two log files: when one is full, the thread checkpoints it into the
 * database, and the other is reused as soon as the thread replies that its own checkpoint is complete.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import { type BufferedStoreCall, StoreCallBuffer, type BufferedWrite } from './call-buffer.ts';
import { StoreLogFile } from './store-log-file.ts';
import { syncDirectoryOf } from './store-database.ts';
import type { OnStoreReplies, StoreBackend } from './store-backend.ts';
import { type StoreBatch, type StoreLogCall, logPaths, type StoreReply, type StoreRead } from './store-protocol.ts';

/** A range of consecutive calls of the group: `first` to `end` - 1. */
type CallRange = { readonly first: number; readonly end: number };
type OnWritten = (error: RemusterError | undefined) => void;

const logBytesMax = 8 * 2 ** 20;
/** Size of one record, unless a single write is larger: a reader of the log holds a whole record in memory. */
const recordBytesMax = 4 * 2 ** 20;
/** The end is reported after so many bytes, so that the thread indexes them before a read has to wait for that. */
const reportBytesMin = 512 * 2 ** 10;
const writtenReply: StoreReply = {};

export class StoreLogBackend implements StoreBackend {
  readonly #send: (calls: readonly StoreLogCall[]) => void;
  /** Handlers of the outstanding requests to the thread, oldest first. At most the reports of a full log, and one. */
  readonly #outstanding: OnStoreReplies[] = [];
  /** Calls of the group in progress. `perform` swaps the two buffers. */
  #current = new StoreCallBuffer();
  /** Calls of the next group. */
  #next = new StoreCallBuffer();
  #log: StoreLogFile;
  #otherLog: StoreLogFile;
  /** Number of the last group in the log. */
  #number: number;
  /** The end of the log that the thread knows: `#reportedBytes` <= `#log.bytes`. */
  #reportedBytes = 0;
  #isAppending = false;
  #isClosed = false;
  /** Why nothing can be written any more. */
  #permanentError: RemusterError | undefined;

  /** `number` is that of the last group in the database, which has all rows of the existing log files. */
  constructor(file: string, number: number, send: (calls: readonly StoreLogCall[]) => void) {
    const [first, second] = logPaths(file);
    this.#send = send;
    this.#number = number;
    this.#log = new StoreLogFile(first);
    this.#otherLog = new StoreLogFile(second);
    syncDirectoryOf(file);
  }

  write(batch: StoreBatch): number {
    return this.#next.write(batch);
  }

  read(call: StoreRead): void {
    this.#next.read(call);
  }

  perform(done: OnStoreReplies): void {
    [this.#current, this.#next] = [this.#next, this.#current];
    this.#performRest([], (replies) => {
      this.#current.clear();
      done(replies);
    });
  }

  onReplies(replies: readonly StoreReply[]): void {
    const handler = this.#outstanding.shift();
    assert(handler !== undefined, 'the store thread replies only to requests');
    handler(replies);
  }

  beforeClose(): void {
    this.#reportLogEnd();
  }

  onClosed(): void {
    this.#isClosed = true;
    this.#log.remove();
    this.#otherLog.remove();
  }

  /** The files stay for the recovery of the next start. */
  onThreadLost(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (!this.#isAppending) this.#closeFiles();
  }

  #closeFiles(): void {
    this.#log.close();
    this.#otherLog.close();
  }

  /** Executes the group range by range. The calls before `replies.length` are done. */
  #performRest(replies: StoreReply[], done: OnStoreReplies): void {
    const { calls } = this.#current;
    const range = { first: replies.length, end: rangeEnd(calls, replies.length) };
    if (range.first === calls.length) return done(replies);
    if (calls[range.first]?.kind === 'write') {
      return this.#write(range, replies, () => this.#performRest(replies, done));
    }
    this.#reportLogEnd();
    this.#outstanding.push((found) => {
      for (const reply of found) replies.push(reply);
      this.#performRest(replies, done);
    });
    this.#send(calls.slice(range.first, range.end) as StoreRead[]);
  }

  /** Adds a reply for each write of the range. */
  #write(range: CallRange, replies: StoreReply[], done: () => void): void {
    const onWritten: OnWritten = (error) => {
      if (error !== undefined && this.#permanentError === undefined && range.end - range.first > 1) {
        return this.#writeOneByOne(range, replies, done);
      }
      const reply = error === undefined ? writtenReply : { error: { code: error.code, message: error.message } };
      for (let at = range.first; at < range.end; at++) replies.push(reply);
      done();
    };
    if (this.#permanentError !== undefined) return onWritten(this.#permanentError);
    if (this.#log.bytes < logBytesMax) return this.#append(range, onWritten);
    this.#switchFile((error) => (error === undefined ? this.#append(range, onWritten) : onWritten(error)));
  }

  /** Retries each write in a record of its own, so that only a write that does not fit fails. */
  #writeOneByOne({ first, end }: CallRange, replies: StoreReply[], done: () => void): void {
    if (first === end) return done();
    // Fails all the rest at once.
    if (this.#permanentError !== undefined) return this.#write({ first, end }, replies, done);
    const writeRest = (): void => this.#writeOneByOne({ first: first + 1, end }, replies, done);
    this.#write({ first, end: first + 1 }, replies, writeRest);
  }

  #append({ first, end }: CallRange, onWritten: OnWritten): void {
    const { calls } = this.#current;
    const packed = this.#current.packed((calls[first] as BufferedWrite).start, (calls[end - 1] as BufferedWrite).end);
    this.#isAppending = true;
    this.#log.append(this.#number + 1, packed, (error) => {
      this.#isAppending = false;
      if (this.#isClosed) return this.#closeFiles();
      if (error?.code === 'STORE_FAILED') this.#permanentError = error;
      if (error === undefined) this.#number += 1;
      if (this.#log.bytes - this.#reportedBytes >= reportBytesMin) this.#reportLogEnd();
      onWritten(error);
    });
  }

  /** Afterwards the thread knows the whole log. */
  #reportLogEnd(): void {
    if (this.#log.bytes === this.#reportedBytes) return;
    this.#reportedBytes = this.#log.bytes;
    this.#outstanding.push(() => {});
    this.#send([{ kind: 'logged', number: this.#number, bytes: this.#reportedBytes }]);
  }

  #switchFile(onSwitched: OnWritten): void {
    this.#reportLogEnd();
    this.#outstanding.push(([reply]) => {
      const error = reply?.error;
      if (error !== undefined) return onSwitched(new RemusterError(error.code, error.message));
      [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
      this.#log.reuse(2 * logBytesMax);
      this.#reportedBytes = 0;
      onSwitched(undefined);
    });
    this.#send([{ kind: 'switchFile' }]);
  }
}

/** The end of a range of reads only, or of writes that fit into one record. */
function rangeEnd(calls: readonly BufferedStoreCall[], first: number): number {
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
