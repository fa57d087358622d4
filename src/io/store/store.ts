/**
 * The Store port: a bounded queue in front of the store thread. Calls that wait become one group with one disk sync;
 * callbacks come in call order.
 */
import { Worker } from 'node:worker_threads';
import { assert } from '../../base/assert.ts';
import { RemusterError, failure, success } from '../../base/errors.ts';
import type { Done, Outcome } from '../../base/errors.ts';
import type { RowStore, StoreEntry } from '../../base/ports.ts';
import { callInMicrotask } from '../system/callback.ts';
import { threadEnvironment } from '../system/compile-cache.ts';
import { diskError } from '../files/disk-error.ts';
import { StoreLogBackend } from './store-log-backend.ts';
import { entryUrl } from '../system/entry-url.ts';
import { DirectBackend, type StoreBackend } from './store-backend.ts';
import type {
  FromStoreThread,
  StoreLogCall,
  StoreReply,
  StoreCall,
  StoreThreadData,
  ToStoreThread,
} from './store-protocol.ts';
import { type StoreBatch, packedBytes } from './store-protocol.ts';

export type StoreOptions = {
  /** A quota: what would grow the file beyond it fails with STORE_FULL. Unlimited if left out. */
  readonly sizeBytesMax?: number;
  /**
   * For many small writes: they are answered when a log before the database has them. Takes more memory, and reads are
   * dear while much is written. Not together with a quota, which only the database can count.
   */
  readonly writeAheadLog?: boolean;
  readonly callsMax?: number;
  readonly queueBytesMax?: number;
};

/** Who waits for a call that the front has taken. */
type Call = (answer: StoreReply) => void;

const batchBytesMax = 64 * 2 ** 20;
const keyCharactersMax = 4_096;
const encoder = new TextEncoder();

export async function openStore(file: string, options: StoreOptions = {}): Promise<RowStore> {
  const { sizeBytesMax, writeAheadLog: isLogged = false } = options;
  assert(!isLogged || sizeBytesMax === undefined, 'a store has a log or a quota');
  const data: StoreThreadData = { file, sizeBytesMax, isLogged };
  const worker = new Worker(entryUrl(import.meta.url, 'store-thread'), {
    workerData: data,
    name: 'store',
    env: threadEnvironment(),
    execArgv: [],
  });
  const store = new StoreClient(worker, file, options);
  await store.opened;
  return {
    write: (batch, done) => store.write(batch, done),
    read: (range, done) => store.read(range, done),
    close: (done) => store.close(done),
  };
}

class StoreClient {
  readonly opened: Promise<void>;
  readonly #worker: Worker;
  readonly #callsMax: number;
  readonly #queueBytesMax: number;
  #backend: StoreBackend;
  #running: Call[] = [];
  #waiting: Call[] = [];
  #waitingBytes = 0;
  #closing: Done<void>[] = [];
  #isToldToClose = false;
  /** Why no more calls are taken. */
  #ended: RemusterError | undefined;
  #isGone = false;

  constructor(worker: Worker, file: string, options: StoreOptions) {
    const { callsMax = 10_000, queueBytesMax = 256 * 2 ** 20, writeAheadLog = false } = options;
    this.#worker = worker;
    this.#backend = new DirectBackend((calls, buffers) => this.#post({ kind: 'group', calls }, buffers));
    this.#callsMax = callsMax;
    this.#queueBytesMax = queueBytesMax;
    this.opened = new Promise((resolve, reject) => {
      // Told when the thread is gone: until then it has its files open.
      let failed: RemusterError | undefined;
      worker.on('message', (message: FromStoreThread) => {
        if (message.kind === 'failed') failed = new RemusterError(message.error.code, message.error.message);
        else if (message.kind === 'closed') this.#backend.closed?.();
        else if (message.kind === 'answers') this.#backend.replied(message.answers);
        else {
          try {
            if (writeAheadLog)
              this.#backend = new StoreLogBackend(file, message.number, (calls) =>
                this.#post({ kind: 'group', calls }),
              );
            resolve();
          } catch (error) {
            this.#post({ kind: 'close' });
            failed = diskError('the log of the store cannot be opened', error);
          }
        }
      });
      const gone = (reason: string): void => {
        this.#gone(reason);
        reject(failed ?? new RemusterError('STORE_FAILED', `the thread of the store is gone: ${reason}`));
      };
      worker.once('error', (error) => gone(error instanceof Error ? error.message : 'unexpected failure'));
      worker.once('exit', () => gone('it ended'));
    });
  }

  write(batch: StoreBatch, done: Done<void>): void {
    const bytes = packedBytes(batch);
    const error = this.#refusal(bytes) ?? checkBatch(batch, bytes);
    if (error !== undefined) {
      callInMicrotask(done, { ok: false, error });
      return;
    }
    this.#enqueue(this.#backend.write(batch), (answer) => callInMicrotask(done, outcomeOf(answer, undefined)));
  }

  read(
    { from, to, limit }: { readonly from: string; readonly to: string; readonly limit: number },
    done: Done<readonly StoreEntry[]>,
  ): void {
    const isCount = Number.isSafeInteger(limit) && limit >= 0;
    const error = this.#refusal(0) ?? (isCount ? (checkKey(from) ?? checkKey(to)) : badArgument('a limit is a count'));
    if (error !== undefined) {
      callInMicrotask(done, { ok: false, error });
      return;
    }
    this.#backend.read({ kind: 'read', from: encoder.encode(from), to: encoder.encode(to), limit });
    this.#enqueue(from.length + to.length, (answer) => callInMicrotask(done, outcomeOf(answer, answer.entries ?? [])));
  }

  close(done: Done<void>): void {
    this.#ended ??= new RemusterError('STORE_FAILED', 'the store is closed');
    if (this.#isGone) {
      callInMicrotask(done, success(undefined));
      return;
    }
    this.#closing.push(done);
    if (this.#running.length === 0) this.#next();
  }

  #refusal(bytes: number): RemusterError | undefined {
    if (this.#ended !== undefined) return this.#ended;
    if (this.#waiting.length < this.#callsMax && this.#waitingBytes + bytes <= this.#queueBytesMax) return undefined;
    return new RemusterError('CAPACITY', `the queue of the store is full: ${this.#waiting.length} calls wait`);
  }

  #enqueue(bytes: number, call: Call): void {
    this.#waiting.push(call);
    this.#waitingBytes += bytes;
    if (this.#running.length === 0) this.#next();
  }

  /** Lets everything be performed that waits, or the file be closed when nothing does. */
  #next(): void {
    if (this.#waiting.length > 0) {
      this.#running = this.#waiting;
      this.#waiting = [];
      this.#waitingBytes = 0;
      this.#backend.perform((answers) => this.#answered(answers));
    } else if (this.#closing.length > 0 && !this.#isToldToClose) {
      this.#isToldToClose = true;
      this.#backend.closing?.();
      this.#post({ kind: 'close' });
    }
  }

  #post(message: ToStoreThread<StoreCall | StoreLogCall>, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #answered(answers: readonly StoreReply[]): void {
    const ended = this.#running;
    assert(answers.length === ended.length, 'the store thread answers each call once');
    this.#running = [];
    this.#next();
    ended.forEach((end, i) => end(answers[i] as StoreReply));
  }

  #gone(reason: string): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#backend.threadLost?.();
    const message = `the thread of the store is gone: ${reason}`;
    this.#ended ??= new RemusterError('STORE_FAILED', message);
    const calls = [...this.#running, ...this.#waiting];
    [this.#running, this.#waiting] = [[], []];
    for (const end of calls) end({ error: { code: 'STORE_FAILED', message } });
    for (const done of this.#closing) callInMicrotask(done, success(undefined));
    this.#closing = [];
  }
}

function outcomeOf<T>({ error }: StoreReply, value: T): Outcome<T> {
  return error === undefined ? success(value) : failure(error.code, error.message);
}

function badArgument(message: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', message);
}

function checkKey(key: string): RemusterError | undefined {
  if (!key.isWellFormed()) return badArgument('a key must have a UTF-8 form');
  return key.length > keyCharactersMax ? new RemusterError('TOO_LARGE', 'a key is too long') : undefined;
}

/** What is packed was checked by whoever has packed it. */
function checkBatch(batch: StoreBatch, bytes: number): RemusterError | undefined {
  if (bytes > batchBytesMax) return new RemusterError('TOO_LARGE', 'a batch has at most 64 MiB');
  for (const item of batch) {
    const error = checkKey('packed' in item ? item.prefix : item.key);
    if (error !== undefined) return error;
  }
  return undefined;
}
