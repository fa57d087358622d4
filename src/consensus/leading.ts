/**
 * One term of leadership: made when an election is won, thrown away when leadership ends, so nothing of one term can
 * leak into another. It begins with an entry of its own, because only entries of the own term are agreed by counting.
 */
import type { Flapping } from './flapping.ts';
import { RemusterError, isRemusterError } from '../base/errors.ts';
import { newEntry } from './entry.ts';
import type { GroupState } from './group-state.ts';
import { membersAfter } from './membership-log.ts';
import { logEntriesMax, servingMs } from './options.ts';
import { Proposals } from './proposals.ts';
import { Reads } from './reads.ts';
import type { GroupChange, GroupMember } from './replica.ts';
import { Replicator } from './replicator.ts';
import { Rounds } from './rounds.ts';
import { encodeMembers } from './stored.ts';
import { Transfer } from './transfer.ts';

const nothing = new Uint8Array(0);

export class Leading {
  readonly replicator: Replicator;
  readonly proposals: Proposals;
  readonly reads: Reads;
  readonly transfer: Transfer;
  /** The others have been told. */
  announced = false;
  readonly #state: GroupState;
  readonly #flapping: Flapping;
  /** Elected, or going on after an attempt to hand over: from here a majority has its time to answer. */
  #sinceMs: number;
  /** We slept until then: a majority may have answered, and must be heard first. */
  #wokeMs = -Infinity;
  /** Our own first entry. */
  readonly #firstIndex: number;

  constructor(state: GroupState, flapping: Flapping) {
    const rounds = new Rounds();
    this.#state = state;
    this.#flapping = flapping;
    this.#sinceMs = state.out.nowMs;
    this.#firstIndex = state.log.lastIndex + 1;
    this.replicator = new Replicator(state, rounds);
    this.proposals = new Proposals(state);
    this.reads = new Reads(state, rounds, this.replicator);
    this.transfer = new Transfer(state, rounds, this.replicator);
    state.append([newEntry(this.#firstIndex, state.term, 'nothing', nothing, undefined)]);
    // What the first round carries is this entry, to everybody.
    rounds.begin(state.out.nowMs);
  }

  /** Everything that was agreed before our time is applied here. */
  get isReady(): boolean {
    return this.#state.appliedIndex >= this.#firstIndex;
  }

  /** A majority was heard so lately that nobody else can have been elected. */
  leaseHolds(nowMs: number): boolean {
    return nowMs < this.replicator.quorumFromMs(nowMs) + servingMs(this.#state.options) && !this.transfer.hasAsked;
  }

  serves(nowMs: number): boolean {
    return this.isReady && this.leaseHolds(nowMs);
  }

  /** The votes count as a sign of life, though not as a lease; while we hand over, nobody is asked for one. */
  hasQuorum(nowMs: number, withinMs: number): boolean {
    if (this.transfer.hasAsked) return true;
    return nowMs < Math.max(this.replicator.quorumFromMs(nowMs), this.#sinceMs) + withinMs;
  }

  /** Nobody can have been heard for so long that we are to give up. */
  isForsaken(nowMs: number): boolean {
    const { electionTimeoutMs } = this.#state.options;
    return nowMs >= this.#wokeMs + electionTimeoutMs && !this.hasQuorum(nowMs, electionTimeoutMs);
  }

  slept(): void {
    this.#wokeMs = this.#state.out.nowMs;
  }

  /** Why nothing can be proposed now. */
  refusal(): RemusterError | undefined {
    const { options, out } = this.#state;
    if (this.transfer.isOpen) return new RemusterError('NOT_LEADER', 'leadership is being handed over');
    return this.hasQuorum(out.nowMs, servingMs(options)) ? undefined : new RemusterError('NO_QUORUM');
  }

  /** One change of members at a time, and none before an entry of our own is agreed. */
  change(change: GroupChange, call: number): RemusterError | undefined {
    const { members, commitIndex, log, term } = this.#state;
    const refusal = this.refusal();
    if (refusal !== undefined) return refusal;
    if (!this.isReady) return new RemusterError('CAPACITY', 'the leader has just been elected');
    if (members.index > commitIndex) return new RemusterError('CAPACITY', 'another change is under way');
    const after = membersAfter(members.members, change, (id) => this.replicator.isCaughtUp(id));
    if (isRemusterError(after)) return after;
    const body = encoded(after);
    if (isRemusterError(body)) return body;
    this.#state.append([newEntry(log.lastIndex + 1, term, 'members', body, call)]);
    this.replicator.membersChanged();
    return undefined;
  }

  tick(): void {
    const { out } = this.#state;
    this.transfer.considerHealth(this.#flapping.isFlapping(out.nowMs));
    if (this.transfer.tick()) this.#sinceMs = out.nowMs;
    this.replicator.heartbeat();
  }

  /** Takes what has gathered into the log, counts what is agreed, sends what can be sent. */
  settle(): void {
    const state = this.#state;
    if (!this.transfer.hasAsked) {
      const entries = this.proposals.take();
      if (entries.length > 0) state.append(entries);
    }
    const agreed = this.replicator.agreedIndex();
    const hasAdvanced = agreed > state.commitIndex && state.log.termAt(agreed) === state.term;
    if (hasAdvanced) state.commitIndex = agreed;
    this.replicator.send();
    this.transfer.settle();
  }

  settleReads(): void {
    this.reads.settle(this.leaseHolds(this.#state.out.nowMs), this.isReady);
  }

  /** Entries behind this one are still needed by a member that is being given a state. */
  keepFrom(): number {
    const { log, options } = this.#state;
    let keep = Infinity;
    for (const { transfer } of this.replicator.peers.values()) keep = Math.min(keep, transfer?.snapshot.index ?? keep);
    return Math.max(keep, log.lastIndex - 2 * logEntriesMax(options));
  }
}

/** Names and addresses come from a caller, and may be such that nobody could read them. */
function encoded(members: readonly GroupMember[]): Uint8Array | RemusterError {
  try {
    return encodeMembers(members);
  } catch (error) {
    if (isRemusterError(error)) return error;
    throw error;
  }
}
