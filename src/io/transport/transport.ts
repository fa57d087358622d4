/**
 * The secure transport of a node, put together: one port number for sealed datagrams and sealed connections, the keys
 * that both share, and the counters of everything that was refused. See docs/decisions/0002-transport.md.
 *
 * A node whose membership has a thread of its own opens the two halves apart, one in each thread. Then no session of a
 * datagram sender is announced over connections: each introduces itself, or is proved by a challenge.
 */
import { toPromise } from '../../base/errors.ts';
import type { Datagrams, Streams } from '../../base/ports.ts';
import { sealDatagrams } from './datagram-half.ts';
import type { SealedDatagrams } from './datagrams.ts';
import type { Secrets } from './keys.ts';
import { noAnnouncement } from './outbound-sessions.ts';
import { bindBoth, bindDatagrams, listenStreams } from './sockets.ts';
import { connectStreams } from './stream-half.ts';
import type { ConnectedStreams } from './streams.ts';
import { checkOptions, type Common, makeCommon, type TransportOptions } from './transport-options.ts';

export type { Secrets } from './keys.ts';
export type { TlsOptions } from './sockets.ts';
export type { TransportOptions } from './transport-options.ts';

type Half = {
  readonly port: number;
  /** Refusals by reason, bytes, messages, connections. */
  counters(): Readonly<Record<string, number>>;
  /** Live: what is established goes on, what is new uses the new current secret. */
  setSecrets(secrets: Secrets): void;
  close(): Promise<void>;
};

export type StreamTransport = Half & { readonly streams: Streams };
export type DatagramTransport = Half & { readonly datagrams: Datagrams };
export type Transport = StreamTransport & DatagramTransport;

export async function openTransport(options: TransportOptions): Promise<Transport> {
  checkOptions(options);
  const { server, udp, port } = await bindBoth(options.bind, options.tls);
  const common = makeCommon(options, port);
  const datagrams: SealedDatagrams = sealDatagrams(common, udp, () => streams.announce(datagrams.announcement()));
  const streams: ConnectedStreams = connectStreams(common, server, options.tls, {
    own: () => datagrams.announcement(),
    heard: (peer, announcement) => datagrams.learn(peer, announcement),
  });
  return { ...half(common, port, datagrams, [streams, datagrams]), streams, datagrams };
}

/** The connections only. */
export async function openStreamTransport(options: TransportOptions): Promise<StreamTransport> {
  checkOptions(options);
  const { server, port } = await listenStreams(options.bind, options.tls);
  const common = makeCommon(options, port);
  const streams = connectStreams(common, server, options.tls, { own: noAnnouncement, heard: () => {} });
  return { ...half(common, port, undefined, [streams]), streams };
}

/**
 * Connections that a further thread of a node opens to ask something. Nobody is listened to, and at the other end they
 * stand beside the connection of the node itself.
 */
export function openAskingTransport(options: TransportOptions): StreamTransport {
  checkOptions(options);
  const { port } = options.self;
  const common = makeCommon(options, port);
  const streams = connectStreams(common, undefined, options.tls, { own: noAnnouncement, heard: () => {} }, true);
  return { ...half(common, port, undefined, [streams]), streams };
}

/** The datagrams only. */
export async function openDatagramTransport(options: TransportOptions): Promise<DatagramTransport> {
  checkOptions(options);
  const { udp, port } = await bindDatagrams(options.bind);
  const common = makeCommon(options, port);
  const datagrams = sealDatagrams(common, udp, () => {});
  return { ...half(common, port, datagrams, [datagrams]), datagrams };
}

function half(
  common: Common,
  port: number,
  datagrams: SealedDatagrams | undefined,
  open: readonly Pick<Streams, 'close'>[],
): Half {
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
