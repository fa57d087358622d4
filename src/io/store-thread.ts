/**
 * The thread that works with the database: it opens it, performs one group of calls after the other, and closes it. The
 * other side sends the next group when it has the answers to the last one, so nothing queues up here.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { assert, unreachable } from '../base/assert.ts';
import { LoggedDatabase } from './logged-database.ts';
import { StoreDatabase, storeError } from './store-database.ts';
import type { FromStoreThread, StoreAnswer, StoreThreadData, ToStoreThread } from './store-messages.ts';

type Database<Call> = {
  perform(calls: readonly Call[]): StoreAnswer[];
  close(): void;
  /** Of a log before it. */
  readonly number: number;
  /** Does a piece of what can wait; true: there is more. */
  work?(): boolean;
};

assert(parentPort !== null, 'the store thread is started by store.ts');
const port = parentPort;

function say(message: FromStoreThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** Values that own their memory are handed over instead of copied. */
function buffersOf(answers: readonly StoreAnswer[]): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  for (const { entries = [] } of answers) {
    for (const { value } of entries) {
      if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength)
        buffers.add(value.buffer);
    }
  }
  return [...buffers];
}

/** What can wait is done when nobody does. */
let isWorking = false;

function workOn<Call>(database: Database<Call>): void {
  if (isWorking || database.work === undefined) return;
  isWorking = true;
  setImmediate(() => {
    isWorking = false;
    if (database.work?.() === true) workOn(database);
  });
}

function serve<Call>(database: Database<Call>): void {
  port.on('message', (message: ToStoreThread<Call>) => {
    switch (message.kind) {
      case 'group': {
        const answers = database.perform(message.calls);
        say({ kind: 'answers', answers }, buffersOf(answers));
        workOn(database);
        break;
      }
      case 'close':
        database.close();
        say({ kind: 'closed' });
        port.close();
        break;
      default:
        unreachable(message);
    }
  });
  say({ kind: 'opened', number: database.number });
}

try {
  const data = workerData as StoreThreadData;
  const database = new StoreDatabase(data);
  if (data.isLogged) serve(new LoggedDatabase(database, data.file));
  else serve(database);
} catch (error) {
  say({ kind: 'failed', error: storeError(error) });
}
