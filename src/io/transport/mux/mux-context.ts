/**
 * What all multiplexers share: limits, counters, service. Handed in whole, so that a test can drive one without a
 * socket.
 */
import type { Identity, Log, StreamService } from '../../../base/ports.ts';
import type { Compression } from './compression.ts';
import type { TransportCounters } from '../shared/transport-counters.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';
import type { ByteBudget } from './reassembly.ts';
import type { TokenBucket } from '../shared/token-bucket.ts';

/** Why somebody may not say this, or undefined if he may. Who may say what is known above io/. */
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
  /** The peer tells of its datagram sessions. */
  announced(peer: Identity, body: Uint8Array): void;
};
