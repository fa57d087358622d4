/**
 * The first file of every thread that threads.ts starts: it imports the program's module and calls its `main`. Messages
 * that arrive meanwhile wait. An error that nobody catches ends the thread, and threads.ts tells why.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { assert } from '../base/assert.ts';
import { importProgram, programChannel } from './program-channel.ts';

assert(parentPort !== null, 'thread-main is started by threads.ts');
const port = parentPort;
const { moduleUrl, data } = workerData as { readonly moduleUrl: string; readonly data: Uint8Array };

const { channel, deliver } = programChannel(data, (body) => {
  const copy = body.slice();
  port.postMessage(copy, [copy.buffer]);
});
// Listening also keeps the thread alive when the program waits for nothing.
port.on('message', deliver);
const program = await importProgram(moduleUrl);
program.main(channel);
