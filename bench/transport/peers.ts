/** Servers and clients of the transport bench: Remuster, bare TCP, Moleculer. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

import { ServiceBroker, type TransporterConfig } from 'moleculer';

import { nodeIdFrom } from '../../src/base/ids.ts';
import type { Identity } from '../../src/base/ports.ts';
import { systemClock } from '../../src/io/system/clock.ts';
import { openTransport, type Transport } from '../../src/io/transport/transport.ts';
import { decodeMessage, encodeMessage } from '../../src/messages/catalogue.ts';
import { checkSender } from '../../src/messages/role-matrix.ts';

export type TransportPeer = { call(body: Uint8Array, done: () => void): void; close(): Promise<void> };

const host = '127.0.0.1';
const lengthBytes = 4;

export type TransportServerPorts = {
  readonly remuster: number;
  readonly bare: number;
  readonly bareBatched: number;
  readonly moleculer: number;
};

export async function startServer(): Promise<TransportServerPorts> {
  const transport = await openRemuster(1);
  transport.streams.serve({
    request: (_from, bytes, _remainingMs, reply) => {
      const request = decodeMessage(bytes);
      if (request.kind !== 'echo') throw new Error(`unexpected ${request.kind}`);
      reply({ ok: true, value: encodeMessage({ kind: 'echoReply', payload: request.payload }) });
    },
    notify: () => undefined,
    open: () => ({ chunk: () => undefined, writable: () => undefined, ended: () => undefined }),
  });
  const moleculer = await startMoleculer('server', await freePort(), undefined);
  return {
    remuster: transport.port,
    bare: await startBare(false),
    bareBatched: await startBare(true),
    moleculer: moleculer.port,
  };
}

function openRemuster(number: number): Promise<Transport> {
  const self: Identity = {
    id: nodeIdFrom(new Uint8Array(16).fill(number)),
    name: `bench-${number}`,
    generation: 1,
    roles: ['worker'],
    dc: 'bench',
    host,
    port: 0,
  };
  return openTransport({
    self,
    cluster: 'bench',
    bind: { host, port: 0 },
    secrets: { current: 'x9K!mPq2$vRt7wLz4#nB', previous: [] },
    admit: (carrier, from, body) => checkSender(carrier, from.roles, body),
    clock: systemClock(),
    log: (level, message, fields) => console.error(level, message, fields),
    // 1,024 bodies of 64 KiB in flight exceed the default bound.
    limits: { sendQueueBytesMax: 256 * 2 ** 20 },
  });
}

export async function remusterClient(port: number): Promise<TransportPeer> {
  const transport = await openRemuster(2);
  const to = { host, port };
  return {
    call(body, done) {
      transport.streams.request(to, encodeMessage({ kind: 'echo', payload: body }), 30_000, (outcome) => {
        if (!outcome.ok) throw outcome.error;
        const { kind } = decodeMessage(outcome.value);
        if (kind !== 'echoReply') throw new Error(`unexpected ${kind}`);
        done();
      });
    },
    close: () => transport.close(),
  };
}

/** Splits a byte stream at its length prefixes. */
function splitter(visit: (body: Uint8Array) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (bytes.length - at >= lengthBytes) {
      const end = at + lengthBytes + bytes.readUInt32BE(at);
      if (bytes.length < end) break;
      visit(bytes.subarray(at + lengthBytes, end));
      at = end;
    }
    rest = bytes.subarray(at);
  };
}

/** Collects messages into one buffer; `flush` writes them in one call. */
class WriteBuffer {
  readonly #socket: Socket;
  #buffer = Buffer.allocUnsafe(256 * 1_024);
  #used = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  add(body: Uint8Array): void {
    if (this.#used + lengthBytes + body.length > this.#buffer.length) this.flush();
    this.#buffer.writeUInt32BE(body.length, this.#used);
    this.#buffer.set(body, this.#used + lengthBytes);
    this.#used += lengthBytes + body.length;
  }

  flush(): void {
    if (this.#used === 0) return;
    this.#socket.write(Buffer.copyBytesFrom(this.#buffer, 0, this.#used));
    this.#used = 0;
  }
}

async function startBare(batched: boolean): Promise<number> {
  const server = createServer({ noDelay: true }, (socket) => {
    const batch = new WriteBuffer(socket);
    const split = splitter((body) => {
      batch.add(body);
      if (!batched) batch.flush();
    });
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      split(chunk);
      batch.flush();
    });
  });
  return listen(server);
}

export async function bareClient(port: number, batched: boolean): Promise<TransportPeer> {
  const socket = connect({ host, port, noDelay: true });
  await once(socket, 'connect');
  const waiting: (() => void)[] = [];
  let completed = 0;
  let isReading = false;
  const batch = new WriteBuffer(socket);
  const split = splitter(() => {
    const done = waiting[completed]!;
    completed += 1;
    done();
    if (completed < 1_024) return;
    waiting.splice(0, completed);
    completed = 0;
  });
  socket.on('data', (chunk: Buffer) => {
    isReading = true;
    split(chunk);
    isReading = false;
    batch.flush();
  });
  return {
    call(body, done) {
      waiting.push(done);
      batch.add(body);
      if (!batched || !isReading) batch.flush();
    },
    async close() {
      socket.destroy();
      await once(socket, 'close');
    },
  };
}

async function listen(server: Server): Promise<number> {
  server.listen({ host, port: 0 });
  await once(server, 'listening');
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listen(server);
  server.close();
  await once(server, 'close');
  return port;
}

async function startMoleculer(name: string, port: number, peerPort: number | undefined) {
  const urls = [`${host}:${port}/${name}`];
  if (peerPort !== undefined) urls.push(`${host}:${peerPort}/server`);
  const broker = new ServiceBroker({
    nodeID: name,
    logger: false,
    metrics: false,
    transporter: {
      type: 'TCP',
      options: { udpDiscovery: false, port, urls, gossipPeriod: 1, maxConnections: 32 },
    } as unknown as TransporterConfig,
  });
  if (peerPort === undefined) {
    broker.createService({ name: 'echo', actions: { echo: (ctx: { params: { body: string } }) => ctx.params.body } });
  }
  await broker.start();
  return { broker, port };
}

export async function moleculerClient(serverPort: number): Promise<TransportPeer> {
  const { broker } = await startMoleculer('client', await freePort(), serverPort);
  await broker.waitForServices('echo', 20_000);
  return {
    call(body, onReply) {
      // The serializer of Moleculer is JSON, so the body is a text of the same length.
      broker.call('echo.echo', { body: 'x'.repeat(body.length) }).then(
        () => onReply(),
        (error: unknown) => {
          throw error;
        },
      );
    },
    close: () => broker.stop(),
  };
}
