/**
 * Entry file of the store thread: opens the database, executes one group at a time, checkpoints when idle, closes.
 * Has no queue: the store sends the next group after the replies to the previous one.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { assert, unreachable } from '../../base/assert.ts';
import { CheckpointedDatabase } from './checkpointed-database.ts';
import { StoreDatabase, storeError } from './store-database.ts';
import type { FromStoreThread, StoreReply, StoreThreadData, ToStoreThread } from './store-protocol.ts';

type Database<Call> = {
  perform(calls: readonly Call[]): StoreReply[];
  close(): void;
  /** Number of the last log group in it. */
  readonly number: number;
  /** One step of a checkpoint. True: more steps remain. */
  checkpointStep?(): boolean;
};

assert(parentPort !== null, 'the store thread is started by store.ts');
const port = parentPort;

function send(message: FromStoreThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

/** Values that own their memory are transferred instead of copied. */
function buffersOf(replies: readonly StoreReply[]): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  for (const { entries = [] } of replies) {
    for (const { value } of entries) {
      if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength)
        buffers.add(value.buffer);
    }
  }
  return [...buffers];
}

let isStepScheduled = false;

/** Checkpoints step by step between the messages. */
function checkpointWhenIdle<Call>(database: Database<Call>): void {
  if (isStepScheduled || database.checkpointStep === undefined) return;
  isStepScheduled = true;
  setImmediate(() => {
    isStepScheduled = false;
    if (database.checkpointStep?.() === true) checkpointWhenIdle(database);
  });
}

function serve<Call>(database: Database<Call>): void {
  port.on('message', (message: ToStoreThread<Call>) => {
    switch (message.kind) {
      case 'group': {
        const replies = database.perform(message.calls);
        send({ kind: 'replies', replies }, buffersOf(replies));
        checkpointWhenIdle(database);
        break;
      }
      case 'close':
        database.close();
        send({ kind: 'closed' });
        port.close();
        break;
      default:
        unreachable(message);
    }
  });
  send({ kind: 'opened', number: database.number });
}

try {
  const data = workerData as StoreThreadData;
  const database = new StoreDatabase(data);
  if (data.isLogged) serve(new CheckpointedDatabase(database, data.file));
  else serve(database);
} catch (error) {
  send({ kind: 'failed', error: storeError(error) });
}
