/**
 * Composition root of a node: opens data directory, stores, transport and HTTP, boots the core, closes everything in a
 * fixed order. A failed start leaves nothing open.
 */
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { stderr } from 'node:process';
import { RemusterError, isRemusterError, toPromise } from '../../base/errors.ts';
import { type NodeId, nodeIdBytes, nodeIdFrom } from '../../base/ids.ts';
import type { Clock, Identity, Log } from '../../base/ports.ts';
import { type ModuleDefinition, isModule } from '../../containers/module.ts';
import { ModuleCatalog } from '../../containers/module-catalog.ts';
import { systemClock } from '../../io/system/clock.ts';
import { openDeployedBundles, sha256Hex } from '../../io/bundle/deployed-bundles.ts';
import { consoleFile } from '../../io/bundle/console-files.ts';
import { openDataDir } from '../../io/files/data-dir.ts';
import { entropyBytes } from '../../io/system/entropy.ts';
import { etcdRegistry } from '../../io/etcd/etcd-registry.ts';
import { openFiles } from '../../io/files/files.ts';
import { openHttpServer } from '../../io/http/http-server.ts';
import { openLog } from '../../io/system/log.ts';
import { machineLoad } from '../../io/system/machine-load.ts';
import { loadModules } from '../../io/bundle/module-loader.ts';
import { openRunners } from '../../io/runner/runners.ts';
import { entryUrl } from '../../io/system/entry-url.ts';
import { openStore } from '../../io/store/store.ts';
import { openThreads } from '../../io/system/threads.ts';
import {
  type Secrets,
  type StreamTransport,
  type TlsOptions,
  type TransportOptions,
  openStreamTransport,
} from '../../io/transport/transport.ts';
import { Random } from '../../base/random.ts';
import { checkSender } from '../../messages/role-matrix.ts';
import { kv } from '../../modules/kv/kv.ts';
import { createLeaseLeadership } from '../../registry/lease-leadership.ts';
import { Chaos } from '../membership/chaos.ts';
import type { ExternalRegistry } from '../control-plane/control-plane.ts';
import { bootNode } from '../node-core.ts';
import type { CorePorts, NodeCore } from '../core/node-core-types.ts';
import { RunnerDenyList } from './runner-deny-list.ts';
import { type NodeGeneration, startGeneration } from './node-identity.ts';
import { type NodeExit, NodeLifecycle } from './node-lifecycle.ts';
import { type MembershipThread, startMembershipThread } from '../membership/membership-thread-start.ts';
import { membershipOptions } from '../options/membership-options.ts';
import { type NodeOptions, type OptionName, type OptionOrigin, nodeOptions, optionNames } from '../options/options.ts';
import { formatHostPort } from '../options/option-types.ts';
import { httpRoutes } from '../http/routes.ts';
import { Shutdown } from './shutdown.ts';

export type StartHooks = {
  /** Receives log lines instead of stderr. */
  readonly log?: Log;
  /** Modules in addition to those of the option `modules`. */
  readonly modules?: readonly ModuleDefinition[];
  /** The origin of each option, for GET /v1/config. */
  readonly origins?: Readonly<Record<OptionName, OptionOrigin>>;
};

export type RunningNode = {
  readonly identity: Identity;
  readonly port: number;
  readonly httpPort: number;
  /** Resolves when a seed has replied or none was given; rejects with CANCELLED if the node ends before that. */
  readonly ready: Promise<void>;
  /**
   * Changes secrets without a restart: established connections continue, new ones use the current secret. Throws
   * WEAK_SECRET.
   */
  setSecrets(secrets: Secrets): void;
  /** Leaves the cluster and closes everything; resolves when the node holds no resource any more. */
  stop(reason: string): Promise<void>;
  /** Resolves once, when the node has ended for any reason. */
  readonly ended: Promise<NodeExit>;
};

/** The node first announces that it leaves, then stops listening, and closes durable stores last. */
const shutdownOrder = [
  'goodbye',
  'http',
  'membership',
  'transport',
  'files',
  'containers',
  'log',
  'store',
  'data',
] as const;
/** The process ends itself when all of `stopTimeoutMs` has passed, so the shutdown ends a little before. */
const shutdownShare = 0.96;
const coreShare = 0.96;
const portAttemptsMax = 8;
/** The package that deployed modules import: the copy that runs them. */
const ownEntries = {
  remuster: entryUrl(import.meta.url, '../../index').href,
  'remuster/client': entryUrl(import.meta.url, '../../client/index').href,
};
const leftReason = 'left for good';

type StartContext = {
  readonly options: NodeOptions;
  readonly hooks: StartHooks;
  readonly clock: Clock;
  readonly log: Log;
  readonly shutdown: Shutdown<(typeof shutdownOrder)[number]>;
  readonly lifecycle: NodeLifecycle;
};

/** Starts a node. Options that are not given have their defaults (docs/reference/options.md). */
export async function startNode(given: Partial<NodeOptions>, hooks: StartHooks = {}): Promise<RunningNode> {
  const options = complete(given);
  const clock = systemClock();
  const log = hooks.log ?? nodeLog(options);
  const shutdown = new Shutdown(clock, shutdownOrder);
  const lifecycle = new NodeLifecycle((ending) => end(shutdown, options, log, ending));
  try {
    return await open({ options, hooks, clock, log, shutdown, lifecycle });
  } catch (error) {
    await lifecycle.stop('the start failed', error);
    throw error;
  }
}

/** Resolved options are complete and their times final; missing ones get their defaults. */
function complete(given: Partial<NodeOptions>): NodeOptions {
  const isComplete = optionNames.every((name) => Object.hasOwn(given, name));
  return isComplete ? (given as NodeOptions) : nodeOptions(given);
}

async function open(start: StartContext): Promise<RunningNode> {
  const { options, clock, log, shutdown, lifecycle } = start;
  rejectWildcard(options.host);
  const directory = openData(start);
  const store = await openStore(join(directory, 'node.db'));
  shutdown.add('store', () => toPromise((done) => store.close(done)));
  const generation = await toPromise<NodeGeneration>((done) => {
    startGeneration(store, () => nodeIdFrom(entropyBytes(nodeIdBytes)), done);
  });
  const { transport, thread, identity } = await openPorts(start, generation);
  const chaos = options.chaos ? new Chaos(clock, (peers) => thread.partitionFrom(peers)) : undefined;
  const streams = chaos?.streams(transport.streams) ?? transport.streams;
  const control = await openControl(start, directory, identity);
  const containers = control === undefined ? undefined : await openContainers(start, directory);
  const denyList = new RunnerDenyList(clock);
  const jobs = control === undefined ? undefined : openJobs(options, denyList);
  const core = bootNode(
    { clock, log, store, streams, membership: thread.membership, control, containers, jobs },
    { ...options, identity },
    {
      joined: () => lifecycle.joined(),
      left: (reason) => void lifecycle.stop(reason === '' ? leftReason : `${leftReason}: ${reason}`),
      halted: (error) => void lifecycle.stop('internal error', error),
    },
  );
  shutdown.add('goodbye', (limitMs) => toPromise((done) => core.stop(done, lifecycle.reason, coreShare * limitMs)));
  const httpPort = await openHttp(start, core, chaos, () =>
    sumCounters(transport.counters(), thread.transportCounters()),
  );
  denyList.setSources(
    () => core.memberViews().map(({ entry }) => entry),
    [{ host: options.httpHost, port: httpPort }, ...options.etcdEndpoints],
  );
  log('info', 'listening', { host: options.host, port: transport.port, httpHost: options.httpHost, httpPort });
  const { ready, ended } = lifecycle;
  const setSecrets = (secrets: Secrets): void => {
    transport.setSecrets(secrets);
    thread.setSecrets(secrets);
  };
  return {
    identity,
    port: transport.port,
    httpPort,
    ready,
    ended,
    setSecrets,
    stop: (reason) => lifecycle.stop(reason),
  };
}

/** A manager has a separate file for the log of its group, so that syncs of other data never delay its own. */
async function openControl(start: StartContext, directory: string, { id }: Identity): Promise<CorePorts['control']> {
  const { options, shutdown } = start;
  if (options.registry === 'none') return undefined;
  const random = new Random(`control/${nodeIdFrom(entropyBytes(nodeIdBytes))}`);
  const load = machineLoad();
  const measure = (): LoadMeasure => {
    const { cpu, memory, cores: capacity } = load();
    return { cpu, memory, perSecond: 0, capacity };
  };
  const common = { random, measure };
  const isManager = options.roles.includes('manager');
  if (options.registry === 'etcd') {
    return { ...common, logStore: undefined, external: openEtcd(start, id, isManager) };
  }
  if (!isManager) return { ...common, logStore: undefined, external: undefined };
  const logStore = await openStore(join(directory, 'log.db'), { writeAheadLog: true });
  shutdown.add('log', () => toPromise((done) => logStore.close(done)));
  return { ...common, logStore, external: undefined };
}

/** Only workers store container state, in a separate file for the same reason. */
async function openContainers(
  { options, hooks, shutdown }: StartContext,
  directory: string,
): Promise<CorePorts['containers']> {
  const modules = new ModuleCatalog();
  const exported = await loadModules(options.modules);
  for (const definition of [kv, ...(hooks.modules ?? []), ...exported.filter(isModule)]) modules.add(definition, 0);
  const files = openFiles(directory);
  const bundles = openDeployedBundles(directory, ownEntries);
  shutdown.add('files', () => {
    bundles.close();
    return toPromise((done) => files.close(done));
  });
  if (!options.roles.includes('worker')) return { modules, files, bundles, store: undefined };
  const store = await openStore(join(directory, 'containers.db'), { writeAheadLog: true });
  shutdown.add('containers', () => toPromise((done) => store.close(done)));
  return { modules, files, bundles, store };
}

/** Only workers run the code of users, with one process per core. */
function openJobs({ roles, cores }: NodeOptions, denyList: RunnerDenyList): CorePorts['jobs'] {
  if (!roles.includes('worker')) return { sha256: sha256Hex, runners: undefined };
  const runners = openRunners(() => denyList.addresses());
  const { isolation } = runners;
  const program = { moduleUrl: entryUrl(import.meta.url, '../../runner/process/main').href, main: () => {} };
  return {
    sha256: sha256Hex,
    runners: { runners, program, cores: cores === 0 ? availableParallelism() : cores, isolation },
  };
}

/** Each datacenter has a namespace of its own in etcd. Only managers are candidates for leadership. */
function openEtcd(
  { options, clock, log, shutdown }: StartContext,
  identity: NodeId,
  candidate: boolean,
): ExternalRegistry {
  const { etcdEndpoints, cluster, dc, leaderTtlMs: ttlMs } = options;
  const endpoints = etcdEndpoints.map((address) => `http://${formatHostPort(address)}`);
  const registry = etcdRegistry({ endpoints, namespace: `remuster/${cluster}/${dc}/`, clock, log });
  const leadership = createLeaseLeadership({ registry, clock, key: '/cluster/leader', identity, ttlMs, candidate });
  shutdown.add('log', async () => {
    await toPromise((done) => leadership.stop(done));
    registry.close();
  });
  return { registry, leadership, resign: (done) => leadership.resign(done) };
}

/** The announced address must be reachable by other nodes. */
function rejectWildcard(host: string): void {
  if (host !== '0.0.0.0' && host !== '::') return;
  throw new RemusterError('BAD_ARGUMENT', `host must be an address that other nodes can reach, not ${host}`);
}

/** Locks the data directory until the shutdown ends. */
function openData({ options, shutdown }: StartContext): string {
  const { data, ephemeral, name } = options;
  const path = data ?? (ephemeral ? undefined : join('remuster-data', name));
  const directory = openDataDir({ ephemeral, ...(path === undefined ? {} : { path }) });
  shutdown.add('data', async () => directory.release());
  return directory.path;
}

type OpenPorts = {
  readonly transport: StreamTransport;
  readonly thread: MembershipThread;
  readonly identity: Identity;
};

/** One port number for TCP and UDP: TCP chooses it; if it is taken for UDP, both are opened again. */
async function openPorts(start: StartContext, generation: NodeGeneration): Promise<OpenPorts> {
  const { options, shutdown } = start;
  for (let attempt = 1; ; attempt++) {
    const transport = await openStreamTransport(
      await transportOptions(start, identityOf(options, generation, options.port)),
    );
    const identity = identityOf(options, generation, transport.port);
    try {
      const thread = await openMembershipThread(options, identity);
      shutdown.add('transport', () => transport.close());
      shutdown.add('membership', () => thread.close());
      return { transport, thread, identity };
    } catch (error) {
      await transport.close();
      if (!isRemusterError(error, 'UNREACHABLE') || options.port !== 0 || attempt === portAttemptsMax) throw error;
    }
  }
}

async function openMembershipThread(options: NodeOptions, identity: Identity): Promise<MembershipThread> {
  const { cluster, secret, secretPrevious, join: seeds, connectTimeoutMs } = options;
  const secrets = { ...(secret === undefined ? {} : { current: secret }), previous: secretPrevious };
  // The membership thread opens connections only for heartbeats (push).
  const tls = options.membership === 'push' ? await readTls(options) : undefined;
  return await startMembershipThread(openThreads(), {
    ...{ identity, cluster, secrets, seeds, connectTimeoutMs, ...(tls === undefined ? {} : { tls }) },
    options: membershipOptions(options),
  });
}

async function transportOptions({ options, clock, log }: StartContext, self: Identity): Promise<TransportOptions> {
  const { cluster, host, port, secret, secretPrevious } = options;
  return {
    ...{ cluster, clock, log, self, bind: { host, port } },
    secrets: { current: secret, previous: secretPrevious },
    tls: await readTls(options),
    admit: (carrier, from, body) => checkSender(carrier, from.roles, body),
    limits: { connectMs: options.connectTimeoutMs },
  };
}

function identityOf(
  { name, host, roles, dc }: NodeOptions,
  { id, generation }: NodeGeneration,
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

type LoadMeasure = ReturnType<NonNullable<CorePorts['control']>['measure']>;
type Counts = Readonly<Record<string, number>>;

/** Both threads count the transport under the same names. */
function sumCounters(a: Counts, b: Counts): Counts {
  const sums: Record<string, number> = { ...a };
  for (const [name, value] of Object.entries(b)) sums[name] = (sums[name] ?? 0) + value;
  return sums;
}

async function openHttp(
  start: StartContext,
  core: NodeCore,
  chaos: Chaos | undefined,
  transportCounters: () => Counts,
): Promise<number> {
  const { options, hooks, log, shutdown } = start;
  const { origins } = hooks;
  const routes = httpRoutes({
    core,
    options,
    origins,
    chaos,
    transportCounters,
    console: options.console ? consoleFile : undefined,
  });
  const { httpHost: host, httpPort: port, token } = options;
  const server = await openHttpServer({ host, port, token, routes, log });
  shutdown.add('http', () => server.close());
  return server.port;
}

async function end(
  shutdown: StartContext['shutdown'],
  options: NodeOptions,
  log: Log,
  { reason, error }: NodeExit,
): Promise<void> {
  if (error === undefined) log('info', 'stopping', { reason });
  else log('error', 'stopping', { reason, error });
  const { failed, stuck } = await shutdown.run(shutdownShare * options.stopTimeoutMs);
  for (const { step, error: why } of failed) log('warn', 'a shutdown step failed', { step, error: why });
  for (const step of stuck) log('warn', 'a shutdown step did not end in time', { step });
  log('info', 'stopped', { reason });
}

/** Pretty on a terminal, JSON elsewhere; secrets are redacted. */
function nodeLog({ name, logLevel, secret, secretPrevious, token }: NodeOptions): Log {
  const secrets = [secret, ...secretPrevious, token].filter((text) => text !== undefined);
  return openLog({ level: logLevel, pretty: stderr.isTTY, node: name, secrets });
}
