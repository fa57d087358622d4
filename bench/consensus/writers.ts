/** The writer process of one side. Keys, values and loops are the same for both sides. */
import { fork } from 'node:child_process';
import { once } from 'node:events';

import { isRemusterError } from '../../src/base/errors.ts';
import { nodeIdFrom, parseNodeId } from '../../src/base/ids.ts';
import type { Identity } from '../../src/base/ports.ts';
import { Random } from '../../src/base/random.ts';
import { systemClock } from '../../src/io/system/clock.ts';
import { entropyBytes, entropyText } from '../../src/io/system/entropy.ts';
import { openStreamTransport } from '../../src/io/transport/transport.ts';
import { checkSender } from '../../src/messages/role-matrix.ts';
import { RegistryClient, sendToManagers } from '../../src/registry/client/registry-client.ts';
import { EtcdGrpcConnection } from './etcd-grpc.ts';

export type VoterAddress = { readonly id: string; readonly host: string; readonly port: number };
export type ConsensusSide = 'remuster' | 'etcd';
export type WriteRates = { readonly perSecond: number; readonly p50Ms: number; readonly p99Ms: number };

type WriterCommand =
  | { readonly kind: 'connect'; readonly voters: readonly VoterAddress[] }
  | { readonly kind: 'write'; readonly writers: number; readonly durationMs: number }
  | { readonly kind: 'probe' }
  | { readonly kind: 'killed'; readonly goneMs: number };
type WriterReply = { readonly written?: WriteRates; readonly firstMs?: number; readonly failed?: string };

type Put = (key: number, value: Uint8Array, done: (error: Error | undefined) => void) => void;
type Client = { readonly put: Put; close(): Promise<void> };

export const clusterName = 'consensus-bench';
export const benchSecret = 'consensus-bench-4Jx9qV2mTz7c';
const keyCount = 10_000;
const valueBytes = 100;
const etcdConnections = 8;
const writeTimeoutMs = 30_000;
const probeEveryMs = 10;

const keyTexts = Array.from({ length: keyCount }, (_, i) => `bench/${String(i).padStart(10, '0')}`);
const keyBytes = keyTexts.map((text) => Buffer.from(text));

/** One clock for all processes of this machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The handle of the bench. One command at a time. */
export class WriterProcess {
  readonly #child;

  constructor(side: ConsensusSide) {
    this.#child = fork(import.meta.filename, [side], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  async connect(voters: readonly VoterAddress[]): Promise<void> {
    await this.#send({ kind: 'connect', voters });
  }

  async write(writers: number, durationMs: number): Promise<WriteRates> {
    const { written } = await this.#send({ kind: 'write', writers, durationMs });
    return written!;
  }

  /** Starts periodic writes; resolves when the first one is acknowledged. */
  async probe(): Promise<void> {
    await this.#send({ kind: 'probe' });
  }

  /** Time of the first acknowledgement of a write that began after `goneMs`. Stops the periodic writes. */
  async firstAfter(goneMs: number): Promise<number> {
    const { firstMs } = await this.#send({ kind: 'killed', goneMs });
    return firstMs!;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }

  async #send(command: WriterCommand): Promise<WriterReply> {
    const exited = new AbortController();
    const replied = once(this.#child, 'message', { signal: exited.signal });
    const onExit = (): void => exited.abort(new Error('the writer process has exited'));
    this.#child.once('exit', onExit);
    this.#child.send(command);
    try {
      const [reply] = (await replied) as [WriterReply];
      if (reply.failed !== undefined) throw new Error(reply.failed);
      return reply;
    } finally {
      this.#child.off('exit', onExit);
    }
  }
}

/** A registry client with the role worker that does not join the cluster, so it gets no requests. */
async function remusterClient(voters: readonly VoterAddress[]): Promise<Client> {
  const host = '127.0.0.1';
  const id = nodeIdFrom(entropyBytes(16));
  const self: Identity = { id, name: 'writers', generation: 1, roles: ['worker'], dc: 'dc1', host, port: 0 };
  const clock = systemClock();
  const transport = await openStreamTransport({
    ...{ self, cluster: clusterName, bind: { host, port: 0 }, secrets: { current: benchSecret, previous: [] }, clock },
    admit: (carrier, from, body) => checkSender(carrier, from.roles, body),
    log: () => undefined,
  });
  const { streams } = transport;
  const managers = voters.map((voter) => ({ ...voter, id: parseNodeId(voter.id) }));
  const registry = new RegistryClient({
    ...{ clock, random: new Random(entropyText(16)), self, managers: () => managers },
    send: sendToManagers({ clock, streams, self, server: () => undefined }),
  });
  return {
    put: (key, value, done) =>
      registry.transact(
        { compare: [], then: [{ kind: 'put', key: keyTexts[key]!, value }], otherwise: [] },
        { timeoutMs: writeTimeoutMs },
        (outcome) => done(outcome.ok ? undefined : outcome.error),
      ),
    close: async () => {
      registry.close();
      await transport.close();
    },
  };
}

/** Round robin over the connections. */
async function etcdClient(voters: readonly VoterAddress[]): Promise<Client> {
  const opened = voters.flatMap(({ host, port }) =>
    Array.from({ length: etcdConnections }, () => EtcdGrpcConnection.open(host, port)),
  );
  const connections = await Promise.all(opened);
  let count = 0;
  return {
    put: (key, value, done) => {
      count += 1;
      connections[count % connections.length]!.put(keyBytes[key]!, value, done);
    },
    close: async () => {
      for (const connection of connections) connection.close();
    },
  };
}

const value = Buffer.alloc(valueBytes, 'v');
let values = 0;

/** A new value each time, valid until the next call: both clients copy it at once. */
function nextValue(): Uint8Array {
  value.writeUInt32BE(values++);
  return value;
}

function randomKey(): number {
  return Math.floor(Math.random() * keyCount);
}

function measure(client: Client, writers: number, durationMs: number): Promise<WriteRates> {
  const latencies: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + durationMs;
  let inFlight = 0;
  return new Promise((resolve, reject) => {
    const next = (): void => {
      const sentMs = performance.now();
      inFlight += 1;
      client.put(randomKey(), nextValue(), (error) => {
        inFlight -= 1;
        if (error !== undefined) return reject(error);
        const nowMs = performance.now();
        if (nowMs < endMs) {
          latencies.push(nowMs - sentMs);
          next();
        } else if (inFlight === 0) resolve(summary(latencies, durationMs));
      });
    };
    for (let i = 0; i < writers; i++) next();
  });
}

function summary(latencies: readonly number[], durationMs: number): WriteRates {
  const sorted = Float64Array.from(latencies).toSorted();
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
  return { perSecond: (sorted.length / durationMs) * 1_000, p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** Periodic writes that overlap, so that none waits for one that hangs. */
class Probe {
  readonly #timer: NodeJS.Timeout;
  readonly #acknowledged: { readonly beganMs: number; readonly endedMs: number }[] = [];
  #onAcknowledged: (() => void) | undefined;

  constructor(client: Client) {
    this.#timer = setInterval(() => {
      const beganMs = monotonicMs();
      client.put(randomKey(), nextValue(), (error) => {
        if (error !== undefined) return;
        this.#acknowledged.push({ beganMs, endedMs: monotonicMs() });
        this.#onAcknowledged?.();
      });
    }, probeEveryMs);
  }

  firstAfter(fromMs: number): Promise<number> {
    return new Promise((resolve) => {
      this.#onAcknowledged = () => {
        const first = this.#acknowledged.find(({ beganMs }) => beganMs > fromMs);
        if (first !== undefined) resolve(first.endedMs);
      };
      this.#onAcknowledged();
    });
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

class Writer {
  readonly #open: (voters: readonly VoterAddress[]) => Promise<Client>;
  #client: Client | undefined;
  #probe: Probe | undefined;

  constructor(side: ConsensusSide) {
    this.#open = side === 'remuster' ? remusterClient : etcdClient;
  }

  async execute(command: WriterCommand): Promise<WriterReply> {
    if (command.kind === 'connect') {
      await this.#client?.close();
      this.#client = await this.#open(command.voters);
      return {};
    }
    const client = this.#client!;
    if (command.kind === 'write') return { written: await measure(client, command.writers, command.durationMs) };
    if (command.kind === 'probe') {
      this.#probe = new Probe(client);
      await this.#probe.firstAfter(-Infinity);
      return {};
    }
    const firstMs = await this.#probe!.firstAfter(command.goneMs);
    this.#probe!.stop();
    return { firstMs };
  }
}

function errorText(error: unknown): string {
  return isRemusterError(error) ? `${error.code}: ${error.message}` : String(error);
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const writer = new Writer(process.argv[2] as ConsensusSide);
  process.on('disconnect', () => process.exit(0));
  process.on('message', (command: WriterCommand) => {
    writer.execute(command).then(
      (reply) => process.send!(reply),
      (error: unknown) => process.send!({ failed: errorText(error) }),
    );
  });
}
