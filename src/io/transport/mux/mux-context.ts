/**
 * What the multiplexers of all connections share: limits, counters, service. A parameter of each, so that a test can
 * drive a multiplexer without a socket.
 */
import type { Identity, Log, StreamService } from '../../../base/ports.ts';
import type { Compression } from './compression.ts';
import type { TransportCounters } from '../shared/transport-counters.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';
import type { ByteBudget } from './reassembly.ts';
import type { TokenBucket } from '../shared/token-bucket.ts';

/** Why this sender may not send this message, or undefined. The role matrix is above io/. */
export type AdmitMessage = (carrier: 'datagram' | 'stream', from: Identity, body: Uint8Array) => string | undefined;

export type MuxContext = {
  readonly limits: TransportLimits;
  readonly counters: TransportCounters;
  readonly log: Log;
  readonly admit: AdmitMessage;
  readonly compression: Compression;
  readonly reassembly: ByteBudget;
  bucket(peer: Identity): TokenBucket;
  service(): StreamService | undefined;
  /** The peer has announced its datagram sessions. */
  onSessionAnnouncement(peer: Identity, body: Uint8Array): void;
};
