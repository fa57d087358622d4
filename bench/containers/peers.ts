/**
 * The peers of the call bench, each with a server and a client process: the bare Remuster transport, Moleculer over TCP
 * and over NATS, NATS, gRPC. The servers reply without doing anything.
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
import { type SendBenchRequest, type LoadResult, measureLoad } from './load.ts';
import { remusterClient, startServer } from '../transport/peers.ts';

export const callPeerNames = ['bare transport', 'Moleculer over TCP', 'Moleculer over NATS', 'NATS', 'gRPC'] as const;
export type CallPeerName = (typeof callPeerNames)[number];
type Round = { readonly concurrency: number; readonly durationMs: number };

const host = '127.0.0.1';
const subject = 'noop';
const emptyBytes = new Uint8Array(0);
const callMs = 30_000;

/** The processes of one peer. */
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
    const replied = once(this.#client, 'message');
    this.#client.send({ concurrency, durationMs } satisfies Round);
    return ((await replied) as [LoadResult])[0];
  }

  async stop(): Promise<void> {
    for (const child of [this.#client, this.#server]) {
      if (child.exitCode !== null) continue;
      child.disconnect();
      await once(child, 'exit');
    }
  }
}

/** An installed `nats-server` on a port of its own. */
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
    let output = '';
    for await (const text of child.stderr) {
      output += String(text);
      if (output.includes('Server is ready')) break;
    }
    if (!output.includes('Server is ready')) throw new Error(`nats-server does not start: ${output}`);
    return new NatsServer(port, child);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill();
    await exited;
  }
}

/** Size of the wire message of a no-op call: the bare transport carries as many bytes. */
function callBytes(): number {
  const session = `${nodeIdFrom(new Uint8Array(16).fill(7))}.1.generators-0`;
  const numbers = { generation: 1, counter: 100_000, lowestPending: 100_000, pool: 2, container: 1, version: 100 };
  return encodeMessage({ kind: 'call', session, ...numbers, method: 'noop', args: encodeValue([]) }).length;
}

const echoEnvelopeBytes = encodeMessage({ kind: 'echo', payload: emptyBytes }).length;

/** Starts the server; returns the port for the client. */
async function serve(name: CallPeerName, natsPort: number): Promise<number> {
  if (name === 'bare transport') return (await startServer()).remuster;
  if (name === 'gRPC') return await serveGrpc();
  if (name === 'NATS') {
    const connection = await connect({ servers: `${host}:${natsPort}` });
    connection.subscribe(subject, { callback: (_error, message) => message.respond(emptyBytes) });
    await connection.flush();
    return natsPort;
  }
  const port = name === 'Moleculer over TCP' ? await freePort() : natsPort;
  await startBroker(name, 'server', port, undefined);
  return port;
}

async function openClient(name: CallPeerName, port: number): Promise<SendBenchRequest> {
  if (name === 'bare transport') {
    const body = new Uint8Array(callBytes() - echoEnvelopeBytes);
    const client = await remusterClient(port);
    return (onReply) => client.call(body, onReply);
  }
  if (name === 'gRPC') return grpcClient(port);
  if (name === 'NATS') {
    const connection = await connect({ servers: `${host}:${port}` });
    return (onReply) => void connection.request(subject, emptyBytes, { timeout: callMs }).then(() => onReply(), fail);
  }
  const broker = await startBroker(name, 'client', name === 'Moleculer over TCP' ? await freePort() : port, port);
  await broker.waitForServices('bench', callMs);
  return (onReply) => void broker.call('bench.noop').then(() => onReply(), fail);
}

async function startBroker(
  name: 'Moleculer over TCP' | 'Moleculer over NATS',
  nodeID: 'client' | 'server',
  port: number,
  serverPort: number | undefined,
): Promise<ServiceBroker> {
  const urls = [`${host}:${port}/${nodeID}`, ...(serverPort === undefined ? [] : [`${host}:${serverPort}/server`])];
  const tcp = { type: 'TCP', options: { udpDiscovery: false, port, urls, gossipPeriod: 1, maxConnections: 32 } };
  const nats = { type: 'NATS', options: { servers: `${host}:${port}` } };
  const transporter = (name === 'Moleculer over TCP' ? tcp : nats) as unknown as TransporterConfig;
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

function grpcClient(port: number): SendBenchRequest {
  const BenchClient = makeGenericClientConstructor(grpcService, 'Bench');
  const client = new BenchClient(`${host}:${port}`, credentials.createInsecure());
  const noop = client['noop']!.bind(client) as (body: Buffer, done: (error: Error | null) => void) => void;
  const empty = Buffer.alloc(0);
  return (onReply) => noop(empty, (error) => (error === null ? onReply() : fail(error)));
}

/** The rate of failed calls is meaningless. */
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

async function runClient(name: CallPeerName, port: number): Promise<void> {
  const send = await openClient(name, port);
  process.on('message', (round: Round) => {
    void measureLoad(send, round.concurrency, round.durationMs).then((load) => process.send?.(load));
  });
  process.send?.('ready');
}

const [, file, end, peer, number] = process.argv;
if (process.send !== undefined && file === import.meta.filename) {
  process.on('disconnect', () => process.exit(0));
  const name = peer as CallPeerName;
  if (end === 'server') process.send(await serve(name, Number(number)));
  else await runClient(name, Number(number));
}
