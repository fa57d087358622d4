/**
 * The other sides, each as server and client process: our bare transport, Moleculer over TCP and NATS, NATS, gRPC. All
 * do nothing and say so.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

import {
  credentials,
  makeGenericClientConstructor,
  type MethodDefinition,
  Server,
  ServerCredentials,
} from '@grpc/grpc-js';
import { ServiceBroker, type TransporterConfig } from 'moleculer';
import { connect } from 'nats';

import { nodeIdFrom } from '../../src/base/ids.ts';
import { encodeMessage } from '../../src/messages/catalogue.ts';
import { encodeValue } from '../../src/messages/codec/value.ts';
import { type SendRequest, type LoadResult, measureLoad } from './load.ts';
import { remusterClient, startServer } from '../transport/peers.ts';

export const callPeerNames = ['transport', 'moleculer TCP', 'moleculer NATS', 'NATS', 'gRPC'] as const;
export type CallPeerName = (typeof callPeerNames)[number];
type Round = { readonly concurrency: number; readonly durationMs: number };

const host = '127.0.0.1';
const subject = 'noop';
const nothing = new Uint8Array(0);
const callMs = 30_000;

/** Both ends of one peer, as the bench holds them. */
export class CallPeer {
  readonly name: CallPeerName;
  readonly #server: ChildProcess;
  readonly #client: ChildProcess;

  private constructor(name: CallPeerName, server: ChildProcess, client: ChildProcess) {
    this.name = name;
    this.#server = server;
    this.#client = client;
  }

  static async start(name: CallPeerName, natsPort: number): Promise<CallPeer> {
    const server = fork(import.meta.filename, ['server', name, String(natsPort)], { execArgv: [] });
    const [port] = (await once(server, 'message')) as [number];
    const client = fork(import.meta.filename, ['client', name, String(port)], { execArgv: [] });
    await once(client, 'message');
    return new CallPeer(name, server, client);
  }

  get pids(): readonly [client: number, server: number] {
    return [this.#client.pid!, this.#server.pid!];
  }

  async measure(concurrency: number, durationMs: number): Promise<LoadResult> {
    const answered = once(this.#client, 'message');
    this.#client.send({ concurrency, durationMs } satisfies Round);
    return ((await answered) as [LoadResult])[0];
  }

  async stop(): Promise<void> {
    for (const child of [this.#client, this.#server]) {
      if (child.exitCode !== null) continue;
      child.disconnect();
      await once(child, 'exit');
    }
  }
}

/** `nats-server`, which must be there, on a port of its own; undefined when it does not start. */
export class NatsServer {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(port: number, child: ChildProcess) {
    this.port = port;
    this.#child = child;
  }

  static async start(): Promise<NatsServer> {
    const port = await freePort();
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'nats-server', '-a', host, '-p', String(port)], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    for await (const text of child.stderr) {
      said += String(text);
      if (said.includes('Server is ready')) break;
    }
    if (!said.includes('Server is ready')) throw new Error(`nats-server does not start: ${said}`);
    return new NatsServer(port, child);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill();
    await gone;
  }
}

/** How many bytes one of our calls that does nothing has on its way: the bare transport carries as many. */
function callBytes(): number {
  const session = `${nodeIdFrom(new Uint8Array(16).fill(7))}.1.drivers-0`;
  const numbers = { generation: 1, counter: 100_000, lowestPending: 100_000, pool: 2, container: 1, version: 100 };
  return encodeMessage({ kind: 'call', session, ...numbers, method: 'noop', args: encodeValue([]) }).length;
}

const echoEnvelopeBytes = encodeMessage({ kind: 'echo', payload: nothing }).length;

/** The number with which the client finds the server. */
async function serve(name: CallPeerName, natsPort: number): Promise<number> {
  if (name === 'transport') return (await startServer())['ours']!;
  if (name === 'gRPC') return await serveGrpc();
  if (name === 'NATS') {
    const connection = await connect({ servers: `${host}:${natsPort}` });
    connection.subscribe(subject, { callback: (_error, message) => message.respond(nothing) });
    await connection.flush();
    return natsPort;
  }
  const port = name === 'moleculer TCP' ? await freePort() : natsPort;
  await startBroker(name, 'server', port, undefined);
  return port;
}

async function askerOf(name: CallPeerName, port: number): Promise<SendRequest> {
  if (name === 'transport') {
    const body = new Uint8Array(callBytes() - echoEnvelopeBytes);
    const client = await remusterClient(port);
    return (heard) => client.call(body, heard);
  }
  if (name === 'gRPC') return grpcAsker(port);
  if (name === 'NATS') {
    const connection = await connect({ servers: `${host}:${port}` });
    return (heard) => void connection.request(subject, nothing, { timeout: callMs }).then(() => heard(), fail);
  }
  const broker = await startBroker(name, 'client', name === 'moleculer TCP' ? await freePort() : port, port);
  await broker.waitForServices('bench', callMs);
  return (heard) => void broker.call('bench.noop').then(() => heard(), fail);
}

async function startBroker(
  name: 'moleculer TCP' | 'moleculer NATS',
  nodeID: 'client' | 'server',
  port: number,
  serverPort: number | undefined,
): Promise<ServiceBroker> {
  const urls = [`${host}:${port}/${nodeID}`, ...(serverPort === undefined ? [] : [`${host}:${serverPort}/server`])];
  const tcp = { type: 'TCP', options: { udpDiscovery: false, port, urls, gossipPeriod: 1, maxConnections: 32 } };
  const nats = { type: 'NATS', options: { servers: `${host}:${port}` } };
  const transporter = (name === 'moleculer TCP' ? tcp : nats) as unknown as TransporterConfig;
  const broker = new ServiceBroker({ nodeID, logger: false, metrics: false, transporter });
  if (nodeID === 'server') broker.createService({ name: 'bench', actions: { noop: () => null } });
  await broker.start();
  return broker;
}

const grpcMethod: MethodDefinition<Buffer, Buffer> = {
  path: '/bench.Bench/Noop',
  requestStream: false,
  responseStream: false,
  requestSerialize: (bytes) => bytes,
  requestDeserialize: (bytes) => bytes,
  responseSerialize: (bytes) => bytes,
  responseDeserialize: (bytes) => bytes,
};
const grpcService = { noop: grpcMethod };

async function serveGrpc(): Promise<number> {
  const server = new Server();
  const empty = Buffer.alloc(0);
  server.addService(grpcService, {
    noop: (_call: unknown, done: (error: null, body: Buffer) => void) => done(null, empty),
  });
  return await new Promise((resolve, reject) => {
    server.bindAsync(`${host}:0`, ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve(port);
      else reject(error);
    });
  });
}

function grpcAsker(port: number): SendRequest {
  const Made = makeGenericClientConstructor(grpcService, 'Bench');
  const client = new Made(`${host}:${port}`, credentials.createInsecure());
  const noop = client['noop']!.bind(client) as (body: Buffer, done: (error: Error | null) => void) => void;
  const empty = Buffer.alloc(0);
  return (heard) => noop(empty, (error) => (error === null ? heard() : fail(error)));
}

/** A bench that measures refusals measures nothing. */
function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen({ host, port: 0 });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function beClient(name: CallPeerName, port: number): Promise<void> {
  const ask = await askerOf(name, port);
  process.on('message', (round: Round) => {
    void measureLoad(ask, round.concurrency, round.durationMs).then((load) => process.send?.(load));
  });
  process.send?.('ready');
}

const [, file, end, peer, number] = process.argv;
if (process.send !== undefined && file === import.meta.filename) {
  process.on('disconnect', () => process.exit(0));
  const name = peer as CallPeerName;
  if (end === 'server') process.send(await serve(name, Number(number)));
  else await beClient(name, Number(number));
}
