/**
 * Constants of a consensus group and the relations between them: the leader lease ends before any voter lease, also
 * with drifting clocks.
 */
import { RemusterError } from '../../base/errors.ts';
import { snapshotChunkBytesMax } from '../../messages/consensus.ts';

export type ConsensusOptions = {
  readonly heartbeatMs: number;
  /** Silence of a leader after which somebody else may be elected; each voter waits up to twice as long, by lot. */
  readonly electionTimeoutMs: number;
  /** 0 stands first when nobody leads, 10 last. */
  readonly priority: number;
  /** A snapshot is taken when so many entries or bytes have been applied since the last one, if that was no larger. */
  readonly snapshotEntriesMax: number;
  readonly snapshotLogBytes: number;
  /** Entries that stay behind a snapshot, for those who lag a little. */
  readonly tailEntriesMax: number;
  /** A state is stored and sent in parts of this size. */
  readonly snapshotPartBytes: number;
  /** A state that is larger cannot be kept or passed on. */
  readonly snapshotBytesMax: number;
  /** Proposals that wait for agreement. */
  readonly proposalsMax: number;
  readonly proposalsBytesMax: number;
  /** What one message of entries carries, and how many of them may be under way to one voter. */
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
 * The lease of a leader is shorter than what its voters promise, so that clocks may run up to 1.2 times too fast at the
 * one and too slow at the other (1.44 in all): the leader stops at 0.8 of the lease, and a promise lasts 1.2 leases.
 */
const leaseRatio = 1 / 1.2;
const selfStopRatio = 0.8;

/** So long may the log behind a snapshot become, when the state is large and is not to be written again so soon. */
export function logEntriesBeforeSnapshotMax({ snapshotEntriesMax }: ConsensusOptions): number {
  return 4 * snapshotEntriesMax;
}

/** How long a voter that heard the leader votes for nobody else, by its own clock. */
export function voterLeaseMs({ electionTimeoutMs }: ConsensusOptions): number {
  return electionTimeoutMs;
}

function leaseMs({ electionTimeoutMs }: ConsensusOptions): number {
  return electionTimeoutMs * leaseRatio;
}

/** How long a leader serves after it sent what a majority has answered, by its own clock. */
export function leaderLeaseMs(options: ConsensusOptions): number {
  return leaseMs(options) * selfStopRatio;
}

/** Throws BAD_ARGUMENT with the relation that does not hold. */
export function checkConsensusOptions(options: ConsensusOptions): void {
  const { heartbeatMs, electionTimeoutMs, priority } = options;
  const refuse = (text: string): never => {
    throw new RemusterError('BAD_ARGUMENT', text);
  };
  for (const [name, value] of Object.entries(options)) {
    if (!Number.isFinite(value) || value < 0) refuse(`${name} must be a number from 0 on`);
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
