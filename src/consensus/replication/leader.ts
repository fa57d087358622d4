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

const nothing = new Uint8Array(0);

export class RaftLeader {
  readonly replicator: LogReplicator;
  readonly proposals: ProposalQueue;
  readonly reads: ReadIndex;
  readonly transfer: LeadershipTransfer;
  /** The others have been told. */
  announced = false;
  readonly #state: ConsensusState;
  readonly #flapping: LeaderFlapping;
  /** Elected, or going on after an attempt to hand over: from here a majority has its time to answer. */
  #sinceMs: number;
  /** We slept until then: a majority may have answered, and must be heard first. */
  #wokeMs = -Infinity;
  /** Our own first entry. */
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
    state.append([newLogEntry(this.#firstIndex, state.term, 'nothing', nothing, undefined)]);
    // What the first round carries is this entry, to everybody.
    rounds.begin(state.outbox.nowMs);
  }

  /** Everything that was agreed before our time is applied here. */
  get isReady(): boolean {
    return this.#state.appliedIndex >= this.#firstIndex;
  }

  /** A majority was heard so lately that nobody else can have been elected. */
  leaseHolds(nowMs: number): boolean {
    const leaseEndMs = this.replicator.quorumSinceMs(nowMs) + leaderLeaseMs(this.#state.options);
    return nowMs < leaseEndMs && !this.transfer.hasReleasedLease;
  }

  canServe(nowMs: number): boolean {
    return this.isReady && this.leaseHolds(nowMs);
  }

  /** The votes count as a sign of life, though not as a lease; while we hand over, nobody is asked for one. */
  hasQuorum(nowMs: number, withinMs: number): boolean {
    if (this.transfer.hasReleasedLease) return true;
    return nowMs < Math.max(this.replicator.quorumSinceMs(nowMs), this.#sinceMs) + withinMs;
  }

  /** Nobody can have been heard for so long that we are to give up. */
  hasLostQuorum(nowMs: number): boolean {
    const { electionTimeoutMs } = this.#state.options;
    return nowMs >= this.#wokeMs + electionTimeoutMs && !this.hasQuorum(nowMs, electionTimeoutMs);
  }

  onPause(): void {
    this.#wokeMs = this.#state.outbox.nowMs;
  }

  /** Why nothing can be proposed now. */
  proposalRefusal(): RemusterError | undefined {
    const { options, outbox } = this.#state;
    if (this.transfer.isOpen) return new RemusterError('NOT_LEADER', 'leadership is being handed over', 'no');
    return this.hasQuorum(outbox.nowMs, leaderLeaseMs(options))
      ? undefined
      : new RemusterError('NO_QUORUM', undefined, 'no');
  }

  /** One change of members at a time, and none before an entry of our own is agreed. */
  changeConfiguration(change: GroupChange, call: number): RemusterError | undefined {
    const { members, commitIndex, log, term } = this.#state;
    const refusal = this.proposalRefusal();
    if (refusal !== undefined) return refusal;
    if (!this.isReady) return new RemusterError('CAPACITY', 'the leader has just been elected');
    if (members.index > commitIndex) return new RemusterError('CAPACITY', 'another change is under way');
    const after = configurationAfter(members.members, change, (id) => this.replicator.isCaughtUp(id));
    if (isRemusterError(after)) return after;
    const body = encoded(after);
    if (isRemusterError(body)) return body;
    this.#state.append([newLogEntry(log.lastIndex + 1, term, 'members', body, call)]);
    this.replicator.membersChanged();
    return undefined;
  }

  tick(): void {
    const { outbox } = this.#state;
    this.transfer.startIfUnhealthy(this.#flapping.isFlapping(outbox.nowMs));
    if (this.transfer.tick()) this.#sinceMs = outbox.nowMs;
    this.replicator.heartbeat();
  }

  /** Takes what has gathered into the log, counts what is agreed, sends what can be sent. */
  advance(): void {
    const state = this.#state;
    if (!this.transfer.hasReleasedLease) {
      const entries = this.proposals.takeEntries();
      if (entries.length > 0) state.append(entries);
    }
    const agreed = this.replicator.committableIndex();
    const hasAdvanced = agreed > state.commitIndex && state.log.termAt(agreed) === state.term;
    if (hasAdvanced) state.commitIndex = agreed;
    this.replicator.send();
    this.transfer.advance();
  }

  advanceReads(): void {
    this.reads.settle(this.leaseHolds(this.#state.outbox.nowMs), this.isReady);
  }

  /** Entries behind this one are still needed by a member that is being given a state. */
  compactionFloor(): number {
    const { log, options } = this.#state;
    let keep = Infinity;
    for (const { snapshotTransfer } of this.replicator.peers.values())
      keep = Math.min(keep, snapshotTransfer?.snapshot.index ?? keep);
    return Math.max(keep, log.lastIndex - 2 * logEntriesBeforeSnapshotMax(options));
  }
}

/** Names and addresses come from a caller, and may be such that nobody could read them. */
function encoded(members: readonly GroupMember[]): Uint8Array | RemusterError {
  try {
    return encodeConfiguration(members);
  } catch (error) {
    if (isRemusterError(error)) return error;
    throw error;
  }
}
