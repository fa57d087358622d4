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
  /** A quota: a write that would grow the file beyond it fails with STORE_FULL. Unlimited if left out. */
  readonly sizeBytesMax?: number;
  /**
   * For many small writes: a write is acknowledged when a log before the database has it. Needs more memory, and a read
   * is expensive while there are many writes. Not together with a quota, which only the database can check.
   */
  readonly writeAheadLog?: boolean;
  readonly callsMax?: number;
  readonly queueBytesMax?: number;
};

/** Handler of the reply to one call. */
type OnReply = (reply: StoreReply) => void;

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
  /** Calls of the group in progress. */
  #running: OnReply[] = [];
  /** Calls of the next group. */
  #waiting: OnReply[] = [];
  #waitingBytes = 0;
  #closing: Done<void>[] = [];
  #isCloseSent = false;
  /** Why no more calls are accepted. */
  #closedReason: RemusterError | undefined;
  #isThreadLost = false;

  constructor(worker: Worker, file: string, options: StoreOptions) {
    const { callsMax = 10_000, queueBytesMax = 256 * 2 ** 20, writeAheadLog = false } = options;
    this.#worker = worker;
    this.#backend = new DirectBackend((calls, buffers) => this.#post({ kind: 'group', calls }, buffers));
    this.#callsMax = callsMax;
    this.#queueBytesMax = queueBytesMax;
    this.opened = new Promise((resolve, reject) => {
      // Reported after the thread has exited: until then it has its files open.
      let openError: RemusterError | undefined;
      worker.on('message', (message: FromStoreThread) => {
        if (message.kind === 'failed') openError = new RemusterError(message.error.code, message.error.message);
        else if (message.kind === 'closed') this.#backend.onClosed?.();
        else if (message.kind === 'replies') this.#backend.onReplies(message.replies);
        else {
          try {
            if (writeAheadLog)
              this.#backend = new StoreLogBackend(file, message.number, (calls) =>
                this.#post({ kind: 'group', calls }),
              );
            resolve();
          } catch (error) {
            this.#post({ kind: 'close' });
            openError = diskError('the log of the store cannot be opened', error);
          }
        }
      });
      const onExit = (reason: string): void => {
        this.#onThreadLost(reason);
        reject(openError ?? new RemusterError('STORE_FAILED', `the store thread has ended: ${reason}`));
      };
      worker.once('error', (error) => onExit(error instanceof Error ? error.message : 'unexpected failure'));
      worker.once('exit', () => onExit('it exited'));
    });
  }

  write(batch: StoreBatch, done: Done<void>): void {
    const bytes = packedBytes(batch);
    const error = this.#checkQueue(bytes) ?? checkBatch(batch, bytes);
    if (error !== undefined) {
      callInMicrotask(done, { ok: false, error });
      return;
    }
    this.#enqueue(this.#backend.write(batch), (reply) => callInMicrotask(done, outcomeOf(reply, undefined)));
  }

  read(
    { from, to, limit }: { readonly from: string; readonly to: string; readonly limit: number },
    done: Done<readonly StoreEntry[]>,
  ): void {
    const isCount = Number.isSafeInteger(limit) && limit >= 0;
    const limitError = isCount ? undefined : badArgument(`the limit ${limit} is not a whole number of rows`);
    const error = this.#checkQueue(0) ?? limitError ?? checkKey(from) ?? checkKey(to);
    if (error !== undefined) {
      callInMicrotask(done, { ok: false, error });
      return;
    }
    this.#backend.read({ kind: 'read', from: encoder.encode(from), to: encoder.encode(to), limit });
    this.#enqueue(from.length + to.length, (reply) => callInMicrotask(done, outcomeOf(reply, reply.entries ?? [])));
  }

  close(done: Done<void>): void {
    this.#closedReason ??= new RemusterError('STORE_FAILED', 'the store is closed');
    if (this.#isThreadLost) {
      callInMicrotask(done, success(undefined));
      return;
    }
    this.#closing.push(done);
    if (this.#running.length === 0) this.#startNext();
  }

  #checkQueue(bytes: number): RemusterError | undefined {
    if (this.#closedReason !== undefined) return this.#closedReason;
    if (this.#waiting.length < this.#callsMax && this.#waitingBytes + bytes <= this.#queueBytesMax) return undefined;
    return new RemusterError('CAPACITY', `the queue of the store is full: ${this.#waiting.length} calls wait`);
  }

  #enqueue(bytes: number, onReply: OnReply): void {
    this.#waiting.push(onReply);
    this.#waitingBytes += bytes;
    if (this.#running.length === 0) this.#startNext();
  }

  /** Starts a group of all waiting calls. Without any it sends `close` if the store is closing. */
  #startNext(): void {
    if (this.#waiting.length > 0) {
      this.#running = this.#waiting;
      this.#waiting = [];
      this.#waitingBytes = 0;
      this.#backend.perform((replies) => this.#onReplies(replies));
    } else if (this.#closing.length > 0 && !this.#isCloseSent) {
      this.#isCloseSent = true;
      this.#backend.beforeClose?.();
      this.#post({ kind: 'close' });
    }
  }

  #post(message: ToStoreThread<StoreCall | StoreLogCall>, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #onReplies(replies: readonly StoreReply[]): void {
    const completed = this.#running;
    assert(replies.length === completed.length, 'the store thread replies to each call once');
    this.#running = [];
    this.#startNext();
    completed.forEach((onReply, i) => onReply(replies[i] as StoreReply));
  }

  #onThreadLost(reason: string): void {
    if (this.#isThreadLost) return;
    this.#isThreadLost = true;
    this.#backend.onThreadLost?.();
    const message = `the store thread has ended: ${reason}`;
    this.#closedReason ??= new RemusterError('STORE_FAILED', message);
    const calls = [...this.#running, ...this.#waiting];
    [this.#running, this.#waiting] = [[], []];
    for (const onReply of calls) onReply({ error: { code: 'STORE_FAILED', message } });
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
  if (!key.isWellFormed()) return badArgument('the key is not well-formed Unicode');
  if (key.length <= keyCharactersMax) return undefined;
  return new RemusterError(
    'TOO_LARGE',
    `the key has ${key.length} characters, at most ${keyCharactersMax} are allowed`,
  );
}

/** Packed rows were checked when they were packed. */
function checkBatch(batch: StoreBatch, bytes: number): RemusterError | undefined {
  if (bytes > batchBytesMax)
    return new RemusterError('TOO_LARGE', `the batch may take ${bytes} bytes, at most ${batchBytesMax} are allowed`);
  for (const item of batch) {
    const error = checkKey('packed' in item ? item.prefix : item.key);
    if (error !== undefined) return error;
  }
  return undefined;
}
