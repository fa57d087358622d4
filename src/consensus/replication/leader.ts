/**
 * One term as leader: lease, quorum check, proposals, reads, configuration changes. Created when elected, dropped when
 * it ends, so no state crosses terms. Begins with an entry of its own, because only entries of its own term are
 * committed by counting.
 */
import type { LeaderFlapping } from '../election/leader-flapping.ts';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { newLogEntry } from '../state/log-entry.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { configurationAfter } from '../state/configuration-log.ts';
import { logEntriesBeforeSnapshotMax, leaderLeaseMs } from '../state/options.ts';
import { ProposalQueue } from './proposal-queue.ts';
import { ReadIndex } from './read-index.ts';
import type { GroupChange, GroupMember } from '../state/state-machine.ts';
import { LogReplicator } from './log-replicator.ts';
import { HeartbeatRounds } from './heartbeat-rounds.ts';
import { encodeConfiguration } from '../state/storage-format.ts';
import { LeadershipTransfer } from './leadership-transfer.ts';

const emptyBody = new Uint8Array(0);

export class RaftLeader {
  readonly replicator: LogReplicator;
  readonly proposals: ProposalQueue;
  readonly reads: ReadIndex;
  readonly transfer: LeadershipTransfer;
  /** Watchers have been notified. */
  announced = false;
  readonly #state: ConsensusState;
  readonly #flapping: LeaderFlapping;
  /** The election or the end of a failed transfer: a majority has the election timeout to reply from here on. */
  #sinceMs: number;
  /** End of the last pause of this node: replies that arrived meanwhile are processed first. */
  #wokeMs = -Infinity;
  /** Index of the first entry of this term. */
  readonly #firstIndex: number;

  constructor(state: ConsensusState, flapping: LeaderFlapping) {
    const rounds = new HeartbeatRounds();
    this.#state = state;
    this.#flapping = flapping;
    this.#sinceMs = state.outbox.nowMs;
    this.#firstIndex = state.log.lastIndex + 1;
    this.replicator = new LogReplicator(state, rounds);
    this.proposals = new ProposalQueue(state);
    this.reads = new ReadIndex(state, rounds, this.replicator);
    this.transfer = new LeadershipTransfer(state, rounds, this.replicator);
    state.append([newLogEntry(this.#firstIndex, state.term, 'noop', emptyBody, undefined)]);
    // The first round carries this entry to all members.
    rounds.begin(state.outbox.nowMs);
  }

  /** All entries committed in earlier terms are applied. */
  get isReady(): boolean {
    return this.#state.appliedIndex >= this.#firstIndex;
  }

  /** A majority replied so recently that no other leader can have been elected. */
  leaseHolds(nowMs: number): boolean {
    const leaseEndMs = this.replicator.quorumSinceMs(nowMs) + leaderLeaseMs(this.#state.options);
    return nowMs < leaseEndMs && !this.transfer.hasReleasedLease;
  }

  canServe(nowMs: number): boolean {
    return this.isReady && this.leaseHolds(nowMs);
  }

  /** Votes count as replies, though not for the lease. During a transfer no round begins, so no quorum is required. */
  hasQuorum(nowMs: number, withinMs: number): boolean {
    if (this.transfer.hasReleasedLease) return true;
    return nowMs < Math.max(this.replicator.quorumSinceMs(nowMs), this.#sinceMs) + withinMs;
  }

  /** No majority replied within the election timeout, pauses of this node excluded. */
  hasLostQuorum(nowMs: number): boolean {
    const { electionTimeoutMs } = this.#state.options;
    return nowMs >= this.#wokeMs + electionTimeoutMs && !this.hasQuorum(nowMs, electionTimeoutMs);
  }

  onPause(): void {
    this.#wokeMs = this.#state.outbox.nowMs;
  }

  /** Why a proposal is refused now. */
  proposalRefusal(): RemusterError | undefined {
    const { options, outbox } = this.#state;
    if (this.transfer.isOpen) return new RemusterError('NOT_LEADER', 'a leadership transfer is in progress', 'no');
    return this.hasQuorum(outbox.nowMs, leaderLeaseMs(options))
      ? undefined
      : new RemusterError('NO_QUORUM', undefined, 'no');
  }

  /** One change at a time, and none before an entry of this term is committed. */
  changeConfiguration(change: GroupChange, call: number): RemusterError | undefined {
    const { members, commitIndex, log, term } = this.#state;
    const refusal = this.proposalRefusal();
    if (refusal !== undefined) return refusal;
    if (!this.isReady) return new RemusterError('CAPACITY', 'the leader was just elected and is not ready yet');
    if (members.index > commitIndex)
      return new RemusterError('CAPACITY', 'another configuration change is in progress');
    const after = configurationAfter(members.members, change, (id) => this.replicator.isCaughtUp(id));
    if (isRemusterError(after)) return after;
    const body = tryEncode(after);
    if (isRemusterError(body)) return body;
    this.#state.append([newLogEntry(log.lastIndex + 1, term, 'configuration', body, call)]);
    this.replicator.membersChanged();
    return undefined;
  }

  tick(): void {
    const { outbox } = this.#state;
    this.transfer.startIfUnhealthy(this.#flapping.isFlapping(outbox.nowMs));
    if (this.transfer.tick()) this.#sinceMs = outbox.nowMs;
    this.replicator.heartbeat();
  }

  /** Appends batched proposals, advances the commit index, sends to followers. */
  advance(): void {
    const state = this.#state;
    if (!this.transfer.hasReleasedLease) {
      const entries = this.proposals.takeEntries();
      if (entries.length > 0) state.append(entries);
    }
    const committable = this.replicator.committableIndex();
    const hasAdvanced = committable > state.commitIndex && state.log.termAt(committable) === state.term;
    if (hasAdvanced) state.commitIndex = committable;
    this.replicator.send();
    this.transfer.advance();
  }

  advanceReads(): void {
    this.reads.advance(this.leaseHolds(this.#state.outbox.nowMs), this.isReady);
  }

  /** Entries after this index are still needed by a follower that receives a snapshot. */
  compactionFloor(): number {
    const { log, options } = this.#state;
    let keep = Infinity;
    for (const { snapshotTransfer } of this.replicator.peers.values())
      keep = Math.min(keep, snapshotTransfer?.snapshot.index ?? keep);
    return Math.max(keep, log.lastIndex - 2 * logEntriesBeforeSnapshotMax(options));
  }
}

/** Names and addresses come from a caller and may be invalid. */
function tryEncode(members: readonly GroupMember[]): Uint8Array | RemusterError {
  try {
    return encodeConfiguration(members);
  } catch (error) {
    if (isRemusterError(error)) return error;
    throw error;
  }
}
