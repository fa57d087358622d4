/**
 * Constants of a consensus group and the relations between them: the leader lease ends before any voter lease, also
 * with drifting clocks.
 */
import { RemusterError } from '../../base/errors.ts';
import { snapshotChunkBytesMax } from '../../messages/consensus.ts';

export type ConsensusOptions = {
  readonly heartbeatMs: number;
  /** Time without a leader after which a voter may start an election; a random delay adds up to the same again. */
  readonly electionTimeoutMs: number;
  /** Election priority: 0 starts an election first, 10 last. */
  readonly priority: number;
  /** A snapshot is due after so many applied entries or bytes since the last one, if it was not larger than these bytes. */
  readonly snapshotEntriesMax: number;
  readonly snapshotLogBytes: number;
  /** Entries kept before a snapshot, for followers that lag a little. */
  readonly tailEntriesMax: number;
  /** Size of the parts in which a state is stored and sent. */
  readonly snapshotPartBytes: number;
  /** Maximum size of a state. */
  readonly snapshotBytesMax: number;
  /** Bounds of proposals that are not applied yet. */
  readonly proposalsMax: number;
  readonly proposalsBytesMax: number;
  /** Bytes of entries in one message, and the bounds of messages in flight to one member. */
  readonly appendBytes: number;
  readonly appendsInFlightMax: number;
  readonly appendBytesInFlightMax: number;
};

export const defaultConsensusOptions: ConsensusOptions = {
  heartbeatMs: 100,
  electionTimeoutMs: 700,
  priority: 0,
  snapshotEntriesMax: 50_000,
  snapshotLogBytes: 16_777_216,
  tailEntriesMax: 5_000,
  snapshotPartBytes: snapshotChunkBytesMax,
  snapshotBytesMax: 268_435_456,
  proposalsMax: 16_384,
  proposalsBytesMax: 67_108_864,
  // Below the size from which the transport compresses.
  appendBytes: 98_304,
  appendsInFlightMax: 64,
  appendBytesInFlightMax: 8_388_608,
};

/**
 * The leader lease is shorter than the voter lease, so that one clock may run 1.2 times too fast and the other as much too
 * slow (1.44 in all): the leader stops serving at 0.8 of its lease, and a voter lease lasts 1.2 leader leases.
 */
const leaseRatio = 1 / 1.2;
const selfStopRatio = 0.8;

/** Maximum length of the log after a snapshot: a large state is not written again before. */
export function logEntriesBeforeSnapshotMax({ snapshotEntriesMax }: ConsensusOptions): number {
  return 4 * snapshotEntriesMax;
}

/** How long a voter that heard the leader votes for no other candidate, by its own clock. */
export function voterLeaseMs({ electionTimeoutMs }: ConsensusOptions): number {
  return electionTimeoutMs;
}

function leaseMs({ electionTimeoutMs }: ConsensusOptions): number {
  return electionTimeoutMs * leaseRatio;
}

/** How long a leader serves after the start of a round that a majority answered, by its own clock. */
export function leaderLeaseMs(options: ConsensusOptions): number {
  return leaseMs(options) * selfStopRatio;
}

/** Throws BAD_ARGUMENT and names the relation that does not hold. */
export function checkConsensusOptions(options: ConsensusOptions): void {
  const { heartbeatMs, electionTimeoutMs, priority } = options;
  const refuse = (text: string): never => {
    throw new RemusterError('BAD_ARGUMENT', text);
  };
  for (const [name, value] of Object.entries(options)) {
    if (!Number.isFinite(value) || value < 0) refuse(`${name} must not be negative`);
    if (value === 0 && name !== 'priority' && name !== 'tailEntriesMax') refuse(`${name} must be above 0`);
  }
  if (priority > 10) refuse('priority must be in 0..10');
  if (heartbeatMs * 3 > leaderLeaseMs(options))
    refuse(`electionTimeoutMs (${electionTimeoutMs}) must be at least 4.5 times heartbeatMs (${heartbeatMs})`);
  if (options.snapshotPartBytes > snapshotChunkBytesMax)
    refuse(`snapshotPartBytes must not exceed ${snapshotChunkBytesMax}`);
  if (options.appendBytes > options.appendBytesInFlightMax)
    refuse('appendBytes must not exceed appendBytesInFlightMax');
}
