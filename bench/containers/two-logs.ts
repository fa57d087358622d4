/** Group commit into two logs in two processes: the limit of a commit with two replicas. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';

import { appendLog } from '../support/append-log.ts';

/** Makes `count` records durable. */
type Store = (count: number, done: () => void) => void;

const host = '127.0.0.1';
const lengthBytes = 4;
const recordsMax = 1_024;

export class TwoLogs {
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  readonly #store: Store;

  private constructor(child: ChildProcess, socket: Socket, store: Store) {
    this.#child = child;
    this.#socket = socket;
    this.#store = store;
  }

  static async start(folder: string, recordBytes: number): Promise<TwoLogs> {
    const child = fork(import.meta.filename, [folder], { execArgv: [] });
    const [port] = (await once(child, 'message')) as [number];
    const socket = connect({ host, port, noDelay: true });
    await once(socket, 'connect');
    const own = appendLog(join(folder, 'first-of-two'));
    let [pending, done] = [0, (): void => {}];
    const onDurable = (): void => {
      pending -= 1;
      if (pending === 0) done();
    };
    socket.on('data', onDurable);
    const buffer = Buffer.alloc(lengthBytes + recordsMax * recordBytes, 7);
    return new TwoLogs(child, socket, (count, onBothDurable) => {
      const bytes = count * recordBytes;
      [pending, done] = [2, onBothDurable];
      buffer.writeUInt32BE(bytes);
      socket.write(buffer.subarray(0, lengthBytes + bytes));
      own(buffer.subarray(lengthBytes, lengthBytes + bytes), onDurable);
    });
  }

  get store(): Store {
    return this.#store;
  }

  stop(): void {
    this.#socket.destroy();
    this.#child.disconnect();
  }
}

/** One group at a time: the client sends the next one after the reply. */
function serveReplica(folder: string): void {
  const store = appendLog(join(folder, 'second-of-two'));
  const server = createServer({ noDelay: true }, (socket) => {
    let received: Buffer = Buffer.alloc(0);
    socket.on('data', (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      if (received.length < lengthBytes || received.length < lengthBytes + received.readUInt32BE()) return;
      const group = received.subarray(lengthBytes);
      received = Buffer.alloc(0);
      store(group, () => socket.write('k'));
    });
    socket.on('error', () => {});
  });
  server.listen(0, host, () => process.send?.((server.address() as { port: number }).port));
  process.on('disconnect', () => process.exit(0));
}

const [, file, folder] = process.argv;
if (process.send !== undefined && file === import.meta.filename && folder !== undefined) serveReplica(folder);
