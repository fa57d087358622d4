/**
 * The composition root of a node, and the only file here that knows the real world: opens the data directory, the
 * store, the transport and the HTTP interface, boots the core on them, and ends all of it in a fixed order. A start
 * that fails half way ends what it had opened and leaves nothing behind.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stderr } from 'node:process';
import { RemusterError, promised } from '../base/errors.ts';
import { nodeIdBytes, nodeIdFrom } from '../base/ids.ts';
import type { Clock, Identity, Log } from '../base/ports.ts';
import { Random } from '../base/random.ts';
import { systemClock } from '../io/clock.ts';
import { openDataDir } from '../io/data-dir.ts';
import { entropyBytes, entropyText } from '../io/entropy.ts';
import { openHttpServer } from '../io/http-server.ts';
import { openLog } from '../io/log.ts';
import { openStore } from '../io/store.ts';
import { type TlsOptions, type Transport, openTransport } from '../io/transport/transport.ts';
import { refusal } from '../messages/role-matrix.ts';
import { Chaos } from './chaos.ts';
import { type NodeCore, bootNode } from './core.ts';
import { type RaisedIdentity, raiseIdentity } from './identity.ts';
import { type Ending, Life } from './life.ts';
import type { NodeOptions, OptionName, OptionOrigin } from './options.ts';
import { routesOf } from './routes.ts';
import { Shutdown } from './shutdown.ts';

export type StartHooks = {
  /** Where log lines go instead of stderr. */
  readonly log?: Log;
  /** Where each option's value came from, for GET /v1/config. */
  readonly origins?: Readonly<Record<OptionName, OptionOrigin>>;
};

export type RunningNode = {
  readonly identity: Identity;
  readonly port: number;
  readonly httpPort: number;
  /** A seed has answered, or none was given. Rejects with CANCELLED when the node ends before that. */
  readonly ready: Promise<void>;
  /** Leaves the cluster and ends everything; nothing of the node is left when it resolves. */
  stop(reason: string): Promise<void>;
  /** Resolves once, when the node is over, whatever the cause. */
  readonly ended: Promise<Ending>;
};

/** First the others hear of it, then we stop listening, and what is durable is closed last. */
const shutdownOrder = ['goodbye', 'http', 'transport', 'store', 'data'] as const;

type Start = {
  readonly options: NodeOptions;
  readonly hooks: StartHooks;
  readonly clock: Clock;
  readonly log: Log;
  readonly shutdown: Shutdown<(typeof shutdownOrder)[number]>;
  readonly life: Life;
};

export async function startNode(options: NodeOptions, hooks: StartHooks = {}): Promise<RunningNode> {
  const clock = systemClock();
  const log = hooks.log ?? nodeLog(options);
  const shutdown = new Shutdown(clock, shutdownOrder);
  const life = new Life((ending) => end(shutdown, options, log, ending));
  try {
    return await open({ options, hooks, clock, log, shutdown, life });
  } catch (error) {
    await life.stop('the start failed', error);
    throw error;
  }
}

async function open(start: Start): Promise<RunningNode> {
  const { options, clock, log, shutdown, life } = start;
  refuseWildcard(options.host);
  const directory = openData(start);
  const store = await openStore(join(directory, 'node.db'));
  shutdown.add('store', () => promised((done) => store.close(done)));
  const raised = await promised<RaisedIdentity>((done) => {
    raiseIdentity(store, () => nodeIdFrom(entropyBytes(nodeIdBytes)), done);
  });
  const transport = await openNodeTransport(start, raised);
  const identity = identityOf(options, raised, transport.port);
  const chaos = options.chaos ? new Chaos(clock) : undefined;
  const ports = {
    ...{ clock, log, store, random: new Random(entropyText(16)) },
    datagrams: chaos?.datagrams(transport.datagrams) ?? transport.datagrams,
    streams: chaos?.streams(transport.streams) ?? transport.streams,
  };
  const core = bootNode(
    ports,
    { ...options, identity },
    { joined: () => life.joined(), halted: (error) => void life.stop('a mistake of ours', error) },
  );
  shutdown.add('goodbye', () => promised((done) => core.stop(done, life.reason)));
  const httpPort = await openHttp(start, core, transport, chaos);
  log('info', 'listening', { host: options.host, port: transport.port, httpHost: options.httpHost, httpPort });
  const { ready, ended } = life;
  return { identity, port: transport.port, httpPort, ready, ended, stop: (reason) => life.stop(reason) };
}

/** What this node tells others must be a place where they can find it. */
function refuseWildcard(host: string): void {
  if (host !== '0.0.0.0' && host !== '::') return;
  throw new RemusterError('BAD_ARGUMENT', `host must be an address that other nodes can reach, not ${host}`);
}

/** The directory stays ours, by a lock, until the very end. */
function openData({ options, shutdown }: Start): string {
  const { data, ephemeral, name } = options;
  const path = data ?? (ephemeral ? undefined : join('remuster-data', name));
  const directory = openDataDir({ ephemeral, ...(path === undefined ? {} : { path }) });
  shutdown.add('data', async () => directory.release());
  return directory.path;
}

async function openNodeTransport({ options, clock, log, shutdown }: Start, raised: RaisedIdentity): Promise<Transport> {
  const { cluster, host, port, secret, secretPrevious } = options;
  const transport = await openTransport({
    ...{ cluster, clock, log, bind: { host, port } },
    self: identityOf(options, raised, port),
    secrets: { current: secret, previous: secretPrevious },
    tls: await readTls(options),
    admit: (carrier, from, body) => refusal(carrier, from.roles, body),
    limits: { connectMs: options.connectTimeoutMs },
  });
  shutdown.add('transport', () => transport.close());
  return transport;
}

function identityOf(
  { name, host, roles, dc }: NodeOptions,
  { id, generation }: RaisedIdentity,
  port: number,
): Identity {
  return { id, name, host, port, generation, roles, dc };
}

async function readTls(options: NodeOptions): Promise<TlsOptions | undefined> {
  const { tlsCertFile, tlsKeyFile, tlsCaFile, tlsVerifyHostname: verifyHostname } = options;
  if (tlsCertFile === undefined || tlsKeyFile === undefined || tlsCaFile === undefined) return undefined;
  const [certPem, keyPem, caPem] = await Promise.all([readPem(tlsCertFile), readPem(tlsKeyFile), readPem(tlsCaFile)]);
  return { certPem, keyPem, caPem, verifyHostname };
}

async function readPem(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new RemusterError('BAD_ARGUMENT', `cannot read the file ${JSON.stringify(file)}`);
  }
}

async function openHttp(start: Start, core: NodeCore, transport: Transport, chaos: Chaos | undefined): Promise<number> {
  const { options, hooks, log, shutdown } = start;
  const { origins } = hooks;
  const routes = routesOf({ core, options, origins, chaos, transportCounters: () => transport.counters() });
  const { httpHost: host, httpPort: port, token } = options;
  const server = await openHttpServer({ host, port, token, routes, log });
  shutdown.add('http', () => server.close());
  return server.port;
}

async function end(
  shutdown: Start['shutdown'],
  options: NodeOptions,
  log: Log,
  { reason, error }: Ending,
): Promise<void> {
  if (error === undefined) log('info', 'ending', { reason });
  else log('error', 'ending', { reason, error });
  const { failed, stuck } = await shutdown.run(options.shutdownTimeoutMs / shutdownOrder.length);
  for (const { step, error: why } of failed) log('warn', 'a step of the shutdown failed', { step, error: why });
  for (const step of stuck) log('warn', 'a step of the shutdown hangs', { step });
  log('info', 'ended', { reason });
}

/** For people on a terminal, for programs elsewhere; never with a secret in it. */
function nodeLog({ name, logLevel, secret, secretPrevious, token }: NodeOptions): Log {
  const secrets = [secret, ...secretPrevious, token].filter((text) => text !== undefined);
  return openLog({ level: logLevel, pretty: stderr.isTTY, node: name, secrets });
}
