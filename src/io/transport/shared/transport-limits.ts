/**
 * All bounds of the transport. Beyond a bound the input of a peer is rejected with a counter, and a caller gets
 * backpressure or CAPACITY.
 */

export type TransportLimits = {
  /** One message on the wire, after compression. */
  readonly messageBytesMax: number;
  readonly decompressedBytesMax: number;
  /** Raw bytes per compressed byte; a sender sends a body beyond it uncompressed. */
  readonly decompressRatioMax: number;
  /** Bodies that are being decompressed, all connections together. */
  readonly decompressTotalBytesMax: number;
  /** Bodies from this size on are compressed. */
  readonly compressFromBytes: number;
  readonly reassemblyBytesMax: number;
  /** All connections together. */
  readonly reassemblyTotalBytesMax: number;
  readonly sendQueueBytesMax: number;
  readonly requestsInFlightMax: number;
  readonly requestsInboundMax: number;
  readonly streamsMax: number;
  /** Messages of one identity over connections; the burst is one second. */
  readonly streamMessagesPerSecond: number;
  readonly connectionsMax: number;
  readonly handshakesMax: number;
  readonly handshakesPerAddressMax: number;
  readonly handshakeMs: number;
  readonly connectMs: number;
  readonly backoffMsMin: number;
  readonly backoffMsMax: number;
  /** Time without received bytes after which a ping is sent; eight times as long on an idle connection. */
  readonly keepaliveMs: number;
  /** Time without received bytes, the unanswered ping included, after which a busy connection is closed. */
  readonly silenceMsMax: number;
  readonly idleMsMax: number;
  /** Items that wait for a connection that is being dialed. */
  readonly waitingMax: number;
  readonly waitingBytesMax: number;
  readonly peersMax: number;
  readonly sessionsMax: number;
  readonly sessionMessagesMax: number;
  readonly sessionMsMax: number;
  /** Before authentication, all senders together: of proven sessions, and of unproven ones. */
  readonly datagramsPerSecond: number;
  readonly unprovenPerSecond: number;
  /** After authentication, per identity. */
  readonly datagramsPerIdentityPerSecond: number;
};

const kib = 1_024;
const mib = 1_024 * kib;

export const defaultTransportLimits: TransportLimits = {
  messageBytesMax: 10 * mib,
  decompressedBytesMax: 100 * mib,
  decompressRatioMax: 100,
  decompressTotalBytesMax: 256 * mib,
  compressFromBytes: 128 * kib,
  reassemblyBytesMax: 96 * mib,
  reassemblyTotalBytesMax: 256 * mib,
  sendQueueBytesMax: 32 * mib,
  requestsInFlightMax: 16_384,
  requestsInboundMax: 4_096,
  streamsMax: 256,
  streamMessagesPerSecond: 1_000_000,
  connectionsMax: 4_096,
  handshakesMax: 256,
  handshakesPerAddressMax: 64,
  handshakeMs: 5_000,
  connectMs: 5_000,
  backoffMsMin: 50,
  backoffMsMax: 2_000,
  keepaliveMs: 5_000,
  silenceMsMax: 15_000,
  idleMsMax: 60_000,
  waitingMax: 4_096,
  waitingBytesMax: 32 * mib,
  peersMax: 8_192,
  sessionsMax: 8_192,
  sessionMessagesMax: 2 ** 24,
  sessionMsMax: 60 * 60_000,
  datagramsPerSecond: 50_000,
  unprovenPerSecond: 2_000,
  datagramsPerIdentityPerSecond: 5_000,
};
