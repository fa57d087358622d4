/**
 * Entry file of every worker thread: imports the program, queues early messages, calls `main`. An uncaught error ends
 * the thread with its reason.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { assert } from '../../base/assert.ts';
import { importProgram, programChannel } from './program-channel.ts';

assert(parentPort !== null, 'thread-main is started by threads.ts');
const port = parentPort;
const { moduleUrl, data } = workerData as { readonly moduleUrl: string; readonly data: Uint8Array };

/** All messages of one event loop turn are posted together: waking the other thread costs more than copying bytes. */
let outbox: Uint8Array<ArrayBuffer>[] = [];

function send(body: Uint8Array): void {
  if (outbox.length === 0) setImmediate(sendAll);
  outbox.push(body.slice());
}

function sendAll(): void {
  const bodies = outbox;
  outbox = [];
  if (bodies.length > 0)
    port.postMessage(
      bodies,
      bodies.map(({ buffer }) => buffer),
    );
}

// Messages of the turn in which the thread ends.
process.once('exit', sendAll);
const { channel, receive } = programChannel(data, send);
// The listener also keeps the thread alive while the program has nothing pending.
port.on('message', receive);
const program = await importProgram(moduleUrl);
program.main(channel);
