/**
 * The secure transport of a node: sealed datagrams and sealed connections on one port number, with shared keys and
 * counters.
 *
 * A node whose membership has a thread of its own opens streams and datagrams separately, one in each thread. Then
 * datagram sessions are not announced over connections, but proven by introduction or challenge.
 */
import type { Socket as UdpSocket } from 'node:dgram';
import type { Server } from 'node:net';
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { toPromise } from '../../base/errors.ts';
import type { Clock, Datagrams, Identity, Streams } from '../../base/ports.ts';
import type { Secrets } from './crypto/keys.ts';
import { emptySessionAnnouncement } from './datagram/outbound-sessions.ts';
import { Acceptor } from './connection/acceptor.ts';
import type { SealedConnectionContext } from './connection/sealed-connection.ts';
import { SealedStreams } from './connection/sealed-streams.ts';
import { type DatagramContext, SealedDatagrams } from './datagram/sealed-datagrams.ts';
import { Compression } from './mux/compression.ts';
import type { MuxContext } from './mux/mux-context.ts';
import { ByteBudget } from './mux/reassembly.ts';
import { type TlsOptions, bindTcpAndUdp, bindDatagrams, listenStreams } from './shared/sockets.ts';
import { TokenBucket } from './shared/token-bucket.ts';
import type { TransportCounters } from './shared/transport-counters.ts';
import type { TransportLimits } from './shared/transport-limits.ts';
import {
  checkTransportOptions,
  type TransportContext,
  makeTransportContext,
  type TransportOptions,
} from './transport-options.ts';

export type { Secrets } from './crypto/keys.ts';
export type { TlsOptions } from './shared/sockets.ts';
export type { TransportOptions } from './transport-options.ts';

const seenSaltsMax = 8_192;

type TransportBase = {
  readonly port: number;
  /** Rejections by reason, bytes, messages, connections. */
  counters(): Readonly<Record<string, number>>;
  /** Takes effect at once for new connections and sessions; established connections keep their keys. */
  setSecrets(secrets: Secrets): void;
  close(): Promise<void>;
};

export type StreamTransport = TransportBase & { readonly streams: Streams };
export type DatagramTransport = TransportBase & { readonly datagrams: Datagrams };
export type Transport = StreamTransport & DatagramTransport;

export async function openTransport(options: TransportOptions): Promise<Transport> {
  checkTransportOptions(options);
  const { server, udp, port } = await bindTcpAndUdp(options.bind, options.tls);
  const context = makeTransportContext(options, port);
  const datagrams: SealedDatagrams = openSealedDatagrams(context, udp, () =>
    streams.announce(datagrams.sessionAnnouncement()),
  );
  const streams: SealedStreams = openSealedStreams(context, server, options.tls, {
    own: () => datagrams.sessionAnnouncement(),
    onAnnouncement: (peer, announcement) => datagrams.learnSessions(peer, announcement),
  });
  return { ...transportBase(context, port, datagrams, [streams, datagrams]), streams, datagrams };
}

/** Opens the connections only. */
export async function openStreamTransport(options: TransportOptions): Promise<StreamTransport> {
  checkTransportOptions(options);
  const { server, port } = await listenStreams(options.bind, options.tls);
  const context = makeTransportContext(options, port);
  const streams = openSealedStreams(context, server, options.tls, noAnnouncements);
  return { ...transportBase(context, port, undefined, [streams]), streams };
}

/**
 * Outbound connections of a further thread of a node, without a listener. The peer treats them as auxiliary: it sends
 * its own requests over the connection of the node itself.
 */
export function openOutboundTransport(options: TransportOptions): StreamTransport {
  checkTransportOptions(options);
  const { port } = options.self;
  const context = makeTransportContext(options, port);
  const streams = openSealedStreams(context, undefined, options.tls, noAnnouncements, true);
  return { ...transportBase(context, port, undefined, [streams]), streams };
}

/** Opens the datagrams only. */
export async function openDatagramTransport(options: TransportOptions): Promise<DatagramTransport> {
  checkTransportOptions(options);
  const { udp, port } = await bindDatagrams(options.bind);
  const context = makeTransportContext(options, port);
  const datagrams = openSealedDatagrams(context, udp, () => {});
  return { ...transportBase(context, port, datagrams, [datagrams]), datagrams };
}

function transportBase(
  context: TransportContext,
  port: number,
  datagrams: SealedDatagrams | undefined,
  open: readonly Pick<Streams, 'close'>[],
): TransportBase {
  let closing: Promise<unknown> | undefined;
  return {
    port,
    counters: () => context.counters.snapshot(),
    setSecrets: (secrets) => {
      context.setSecrets(secrets);
      datagrams?.rekey();
    },
    close: async () => {
      closing ??= Promise.all(open.map((part) => toPromise<void>((done) => part.close(done))));
      await closing;
    },
  };
}

/** Announcements of datagram sessions over connections; see sealed-datagrams.ts. */
type SessionAnnouncements = {
  own(): Buffer;
  onAnnouncement(peer: Identity, announcement: Uint8Array): void;
};

const noAnnouncements: SessionAnnouncements = { own: emptySessionAnnouncement, onAnnouncement: () => {} };

/** Wires context, acceptor and streams, on a listener if there is one. */

function openSealedStreams(
  shared: TransportContext,
  server: Server | undefined,
  tls: TlsOptions | undefined,
  announcements: SessionAnnouncements,
  auxiliary = false,
): SealedStreams {
  const { cluster, clock, log, admit, limits, counters, rejections, self, ring } = shared;
  const mux: MuxContext = {
    limits,
    counters,
    log,
    admit,
    compression: new Compression(limits),
    reassembly: new ByteBudget(limits.reassemblyTotalBytesMax),
    bucket: makeBuckets(limits, clock),
    service: () => streams.service,
    onSessionAnnouncement: (peer, body) => announcements.onAnnouncement(peer, body),
  };
  const seenSalts = new BoundedLru<string, true>(seenSaltsMax);
  const sessions = (): Buffer => announcements.own();
  const context: SealedConnectionContext = {
    cluster,
    clock,
    rejections,
    self,
    ring,
    mux,
    seenSalts,
    sessions,
    auxiliary,
  };
  const streams: SealedStreams = new SealedStreams(context, tls);
  if (server === undefined) return streams;
  const event = tls === undefined ? 'connection' : 'secureConnection';
  const onAccept: SealedStreams['acceptSocket'] = (socket, release) => streams.acceptSocket(socket, release);
  streams.listen(
    new Acceptor(server, event, { limits, rejections, log, onAccept, connectionCount: () => streams.connectionCount }),
  );
  return streams;
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

/** Wires sealed datagrams on a UDP socket. `onRenew` is called when there is a new session to announce. */
function openSealedDatagrams(shared: TransportContext, udp: UdpSocket, onRenew: () => void): SealedDatagrams {
  const { cluster, clock, log, admit, limits, counters, rejections, self, ring, onHandlerError } = shared;
  const datagrams = new SealedDatagrams({
    ...{ cluster, clock, admit, limits, counters, rejections, self, ring, onHandlerError, onRenew },
    ...datagramSocket(udp, counters),
  });
  udp.on('message', (packet, from) => datagrams.receivePacket(packet, { host: from.address, port: from.port }));
  udp.on('error', (error) => log('error', 'the datagram socket failed', { error: String(error) }));
  return datagrams;
}

/** A closed socket ignores what is sent, and can be closed again. */
function datagramSocket(udp: UdpSocket, counters: TransportCounters): Pick<DatagramContext, 'transmit' | 'shut'> {
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
