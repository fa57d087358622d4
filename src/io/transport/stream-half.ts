/**
 * Puts the sealed connections of a node together, on a listener if there is one: the multiplexer's context, the
 * acceptor, the streams.
 */
import type { Server } from 'node:net';

import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { Clock, Identity } from '../../base/ports.ts';
import { Acceptor } from './connection/acceptor.ts';
import { Compression } from './mux/compression.ts';
import type { SealedConnectionContext } from './connection/sealed-connection.ts';
import type { TransportLimits } from './shared/transport-limits.ts';
import type { MuxContext } from './mux/mux-context.ts';
import { ByteBudget } from './mux/reassembly.ts';
import type { TlsOptions } from './shared/sockets.ts';
import { SealedStreams } from './connection/sealed-streams.ts';
import { TokenBucket } from './shared/token-bucket.ts';
import type { TransportContext } from './transport-options.ts';

const seenSaltsMax = 8_192;

/** How the datagrams of this node and of its peers are made known over connections; see datagrams.ts. */
export type SessionAnnouncements = {
  own(): Buffer;
  heard(peer: Identity, announcement: Uint8Array): void;
};

export function openSealedStreams(
  common: TransportContext,
  server: Server | undefined,
  tls: TlsOptions | undefined,
  announcements: SessionAnnouncements,
  aside = false,
): SealedStreams {
  const { cluster, clock, log, admit, limits, counters, refusals, self, ring } = common;
  const mux: MuxContext = {
    limits,
    counters,
    log,
    admit,
    compression: new Compression(limits),
    reassembly: new ByteBudget(limits.reassemblyTotalBytesMax),
    bucket: makeBuckets(limits, clock),
    service: () => streams.service,
    announced: (peer, body) => announcements.heard(peer, body),
  };
  const seenSalts = new BoundedLru<string, true>(seenSaltsMax);
  const sessions = (): Buffer => announcements.own();
  const context: SealedConnectionContext = { cluster, clock, refusals, self, ring, mux, seenSalts, sessions, aside };
  const streams: SealedStreams = new SealedStreams(context, tls);
  if (server === undefined) return streams;
  const event = tls === undefined ? 'connection' : 'secureConnection';
  const accepted: SealedStreams['acceptSocket'] = (socket, release) => streams.acceptSocket(socket, release);
  streams.listen(
    new Acceptor(server, event, { limits, refusals, log, accepted, count: () => streams.connectionCount }),
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
