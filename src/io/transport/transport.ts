/**
 * The secure transport of a node, put together: one port number for sealed datagrams and sealed connections, the keys
 * that both share, and the counters of everything that was refused. See docs/decisions/0002-transport.md.
 */
import type { Socket as UdpSocket } from 'node:dgram';

import { promised, RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import type { Address, Clock, Datagrams, Identity, Log, Streams } from '../../base/ports.ts';
import { Acceptor } from './acceptor.ts';
import { BoundedLru } from '../../base/bounded-lru.ts';
import { Compression } from './compression.ts';
import type { ConnectionContext } from './connection.ts';
import { Counters } from './counters.ts';
import { type DatagramContext, SealedDatagrams } from './datagrams.ts';
import { type KeyRing, makeKeyRing, type Secrets } from './keys.ts';
import { defaultLimits, type TransportLimits } from './limits.ts';
import { isLoopback } from './loopback.ts';
import type { Admit, MuxContext } from './mux-context.ts';
import { ByteBudget } from './reassembly.ts';
import { Refusals } from './refusal.ts';
import { checkSecret } from './secret.ts';
import { bindBoth, type Listener, type TlsOptions } from './sockets.ts';
import { ConnectedStreams } from './streams.ts';
import { TokenBucket } from './token-bucket.ts';

export type { Secrets } from './keys.ts';
export type { TransportLimits } from './limits.ts';
export type { Admit } from './mux-context.ts';
export type { TlsOptions } from './sockets.ts';

export type TransportOptions = {
  /** Port 0 stands for the one that is chosen. */
  readonly self: Identity;
  readonly cluster: string;
  readonly bind: Address;
  readonly secrets: Secrets;
  readonly tls?: TlsOptions | undefined;
  readonly admit: Admit;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits?: Partial<TransportLimits> | undefined;
};

export type Transport = {
  readonly datagrams: Datagrams;
  readonly streams: Streams;
  readonly port: number;
  /** Refusals by reason, bytes, messages, connections. */
  counters(): Readonly<Record<string, number>>;
  /** Live: what is established goes on, what is new uses the new current secret. */
  setSecrets(secrets: Secrets): void;
  close(): Promise<void>;
};

const seenSaltsMax = 8_192;

export async function openTransport(options: TransportOptions): Promise<Transport> {
  check(options);
  const listener = await bindBoth(options.bind, options.tls);
  return assemble(options, listener);
}

function check({ cluster, bind, secrets, tls }: TransportOptions): void {
  if (!namePattern.test(cluster)) throw new RemusterError('BAD_ARGUMENT', 'the cluster name is not a name');
  checkSecrets(secrets, bind);
  if (tls?.verifyHostname === false && !isLoopback(bind.host)) {
    throw new RemusterError('BAD_ARGUMENT', 'host names go unchecked only on a loopback address');
  }
}

function checkSecrets(secrets: Secrets, bind: Address): void {
  if (secrets.current === undefined && !isLoopback(bind.host)) {
    throw new RemusterError('WEAK_SECRET', `without a secret only a loopback address is allowed, not ${bind.host}`);
  }
  for (const secret of [secrets.current ?? [], secrets.previous].flat()) checkSecret(secret);
}

function assemble(options: TransportOptions, { server, udp, port }: Listener): Transport {
  const { cluster, clock, log, bind } = options;
  const self: Identity = { ...options.self, port: options.self.port === 0 ? port : options.self.port };
  const limits = { ...defaultLimits, ...options.limits };
  const counters = new Counters();
  const refusals = new Refusals(counters, clock, log);
  let ring: KeyRing = makeKeyRing(cluster, options.secrets);
  const handlerFailed = (error: unknown): void => {
    counters.add('handlers.failed');
    log('error', 'a handler of the transport failed', { error: String(error) });
  };
  const common = { cluster, clock, refusals, self: () => self, ring: () => ring };
  const datagrams: SealedDatagrams = new SealedDatagrams({
    ...common,
    limits,
    counters,
    admit: options.admit,
    handlerFailed,
    ...datagramSocket(udp, counters),
    renewed: () => streams.announce(datagrams.announcement()),
  });
  const mux: MuxContext = {
    limits,
    counters,
    log,
    admit: options.admit,
    compression: new Compression(limits),
    reassembly: new ByteBudget(limits.reassemblyTotalBytesMax),
    bucket: makeBuckets(limits, clock),
    service: () => streams.service,
    announced: (peer, body) => datagrams.learn(peer, body),
  };
  const seenSalts = new BoundedLru<string, true>(seenSaltsMax);
  const context: ConnectionContext = { ...common, mux, seenSalts, sessions: () => datagrams.announcement() };
  const streams: ConnectedStreams = new ConnectedStreams(context, options.tls);
  const event = options.tls === undefined ? 'connection' : 'secureConnection';
  const accepted: ConnectedStreams['accepted'] = (socket, release) => streams.accepted(socket, release);
  streams.listen(
    new Acceptor(server, event, { limits, refusals, log, accepted, count: () => streams.connectionCount }),
  );
  udp.on('message', (packet, from) => datagrams.arrived(packet, { host: from.address, port: from.port }));
  udp.on('error', (error) => log('error', 'the datagram socket failed', { error: String(error) }));
  let closing: Promise<unknown> | undefined;
  return {
    datagrams,
    streams,
    port,
    counters: () => counters.snapshot(),
    setSecrets: (secrets) => {
      checkSecrets(secrets, bind);
      ring = makeKeyRing(cluster, secrets);
      datagrams.rekey();
    },
    close: async () => {
      const ports = [streams, datagrams];
      closing ??= Promise.all(ports.map((open) => promised<void>((done) => open.close(done))));
      await closing;
    },
  };
}

/** A socket that was closed swallows what is sent, and may be closed again. */
function datagramSocket(udp: UdpSocket, counters: Counters): Pick<DatagramContext, 'transmit' | 'shut'> {
  let isOpen = true;
  return {
    transmit: (packet, to) => {
      if (!isOpen) return;
      udp.send(packet, to.port, to.host, (error) => {
        if (error !== null) counters.add('datagrams.unsent');
      });
    },
    shut: (done) => {
      if (isOpen) udp.close(done);
      else queueMicrotask(done);
      isOpen = false;
    },
  };
}

function makeBuckets(limits: TransportLimits, clock: Clock): MuxContext['bucket'] {
  const buckets = new BoundedLru<string, TokenBucket>(limits.peersMax);
  return (peer) => {
    const known = buckets.get(peer.id);
    if (known !== undefined) return known;
    const bucket = new TokenBucket(limits.streamMessagesPerSecond, limits.streamMessagesPerSecond, clock.nowMs());
    buckets.set(peer.id, bucket);
    return bucket;
  };
}
