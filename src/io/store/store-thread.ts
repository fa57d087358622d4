/**
 * Entry file of the store thread: opens the database, executes one group at a time, checkpoints when idle, closes.
 * Nothing queues here: the next group comes after the replies to the last one.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { assert, unreachable } from '../../base/assert.ts';
import { CheckpointedDatabase } from './checkpointed-database.ts';
import { StoreDatabase, storeError } from './store-database.ts';
import type { FromStoreThread, StoreReply, StoreThreadData, ToStoreThread } from './store-protocol.ts';

type Database<Call> = {
  perform(calls: readonly Call[]): StoreReply[];
  close(): void;
  /** Of a log before it. */
  readonly number: number;
  /** Does a piece of what can wait; true: there is more. */
  checkpointStep?(): boolean;
};

assert(parentPort !== null, 'the store thread is started by store.ts');
const port = parentPort;

function say(message: FromStoreThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** Values that own their memory are handed over instead of copied. */
function buffersOf(answers: readonly StoreReply[]): ArrayBuffer[] {
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
  if (isWorking || database.checkpointStep === undefined) return;
  isWorking = true;
  setImmediate(() => {
    isWorking = false;
    if (database.checkpointStep?.() === true) workOn(database);
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
  if (data.isLogged) serve(new CheckpointedDatabase(database, data.file));
  else serve(database);
} catch (error) {
  say({ kind: 'failed', error: storeError(error) });
}
