/**
 * The secure transport of a node: one port for sealed datagrams and sealed connections, with shared keys and counters.
 * The two halves can be opened apart.
 *
 * A node whose membership has a thread of its own opens the two halves apart, one in each thread. Then no session of a
 * datagram sender is announced over connections: each introduces itself, or is proved by a challenge.
 */
import { toPromise } from '../../base/errors.ts';
import type { Datagrams, Streams } from '../../base/ports.ts';
import { openSealedDatagrams } from './datagram-half.ts';
import type { SealedDatagrams } from './datagram/sealed-datagrams.ts';
import type { Secrets } from './crypto/keys.ts';
import { emptySessionAnnouncement } from './datagram/outbound-sessions.ts';
import { bindTcpAndUdp, bindDatagrams, listenStreams } from './shared/sockets.ts';
import { openSealedStreams } from './stream-half.ts';
import type { SealedStreams } from './connection/sealed-streams.ts';
import {
  checkTransportOptions,
  type TransportContext,
  makeTransportContext,
  type TransportOptions,
} from './transport-options.ts';

export type { Secrets } from './crypto/keys.ts';
export type { TlsOptions } from './shared/sockets.ts';
export type { TransportOptions } from './transport-options.ts';

type TransportBase = {
  readonly port: number;
  /** Refusals by reason, bytes, messages, connections. */
  counters(): Readonly<Record<string, number>>;
  /** Live: what is established goes on, what is new uses the new current secret. */
  setSecrets(secrets: Secrets): void;
  close(): Promise<void>;
};

export type StreamTransport = TransportBase & { readonly streams: Streams };
export type DatagramTransport = TransportBase & { readonly datagrams: Datagrams };
export type Transport = StreamTransport & DatagramTransport;

export async function openTransport(options: TransportOptions): Promise<Transport> {
  checkTransportOptions(options);
  const { server, udp, port } = await bindTcpAndUdp(options.bind, options.tls);
  const common = makeTransportContext(options, port);
  const datagrams: SealedDatagrams = openSealedDatagrams(common, udp, () =>
    streams.announce(datagrams.sessionAnnouncement()),
  );
  const streams: SealedStreams = openSealedStreams(common, server, options.tls, {
    own: () => datagrams.sessionAnnouncement(),
    heard: (peer, announcement) => datagrams.learnSessions(peer, announcement),
  });
  return { ...half(common, port, datagrams, [streams, datagrams]), streams, datagrams };
}

/** The connections only. */
export async function openStreamTransport(options: TransportOptions): Promise<StreamTransport> {
  checkTransportOptions(options);
  const { server, port } = await listenStreams(options.bind, options.tls);
  const common = makeTransportContext(options, port);
  const streams = openSealedStreams(common, server, options.tls, { own: emptySessionAnnouncement, heard: () => {} });
  return { ...half(common, port, undefined, [streams]), streams };
}

/**
 * Connections that a further thread of a node opens to ask something. Nobody is listened to, and at the other end they
 * stand beside the connection of the node itself.
 */
export function openOutboundTransport(options: TransportOptions): StreamTransport {
  checkTransportOptions(options);
  const { port } = options.self;
  const common = makeTransportContext(options, port);
  const streams = openSealedStreams(
    common,
    undefined,
    options.tls,
    { own: emptySessionAnnouncement, heard: () => {} },
    true,
  );
  return { ...half(common, port, undefined, [streams]), streams };
}

/** The datagrams only. */
export async function openDatagramTransport(options: TransportOptions): Promise<DatagramTransport> {
  checkTransportOptions(options);
  const { udp, port } = await bindDatagrams(options.bind);
  const common = makeTransportContext(options, port);
  const datagrams = openSealedDatagrams(common, udp, () => {});
  return { ...half(common, port, datagrams, [datagrams]), datagrams };
}

function half(
  common: TransportContext,
  port: number,
  datagrams: SealedDatagrams | undefined,
  open: readonly Pick<Streams, 'close'>[],
): TransportBase {
  let closing: Promise<unknown> | undefined;
  return {
    port,
    counters: () => common.counters.snapshot(),
    setSecrets: (secrets) => {
      common.setSecrets(secrets);
      datagrams?.rekey();
    },
    close: async () => {
      closing ??= Promise.all(open.map((one) => toPromise<void>((done) => one.close(done))));
      await closing;
    },
  };
}
