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

/** What is sent within one turn of the loop travels together: waking another thread costs more than the bytes. */
let waiting: Uint8Array<ArrayBuffer>[] = [];

function send(body: Uint8Array): void {
  if (waiting.length === 0) setImmediate(sendAll);
  waiting.push(body.slice());
}

function sendAll(): void {
  const bodies = waiting;
  waiting = [];
  if (bodies.length > 0)
    port.postMessage(
      bodies,
      bodies.map(({ buffer }) => buffer),
    );
}

// The last words of a thread that ends in the same turn.
process.once('exit', sendAll);
const { channel, receive: deliver } = programChannel(data, send);
// Listening also keeps the thread alive when the program waits for nothing.
port.on('message', deliver);
const program = await importProgram(moduleUrl);
program.main(channel);
