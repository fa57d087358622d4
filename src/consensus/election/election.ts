/**
 * Elections: pre-vote, then votes; one vote per term, only for a log at least as new. A pre-vote asks whether an election
 * could be won and changes no state. Never grants a vote while the voter lease holds.
 */
import { termMax } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import { RearmableTimer } from '../state/rearmable-timer.ts';
import { type ElectionRanking, electionDelayMs, leaderGoneDelayMs, electionRetryDelayMs } from './election-delay.ts';
import type { LeaderFlapping } from './leader-flapping.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { voterLeaseMs } from '../state/options.ts';
import type { ConsensusMessageOf, ConsensusTimer } from '../state/effects.ts';
import { type ReleasedLease, VoterLease } from './voter-lease.ts';

export type ElectionEvents = {
  /** This voter starts a new term as a candidate; the term has no leader yet. */
  started(): void;
  won(): void;
  /** A message has a higher term: this voter becomes a follower. */
  superseded(term: number): void;
  /** This voter leads and has released exactly this lease. */
  hasReleased(lease: ReleasedLease): boolean;
};

export class Election {
  readonly voterLease: VoterLease;
  readonly #state: ConsensusState;
  readonly #flapping: LeaderFlapping;
  readonly #events: ElectionEvents;
  readonly #timer: RearmableTimer;
  #phase: 'none' | 'preVote' | 'vote' = 'none';
  #granted = new Set<NodeId>();
  /** Drawn when a leader is first heard, not per message. */
  #delayMs: number | undefined;
  /** This node was paused: messages that arrived meanwhile are processed first. */
  #graceUsed = false;

  constructor(state: ConsensusState, flapping: LeaderFlapping, events: ElectionEvents) {
    this.#state = state;
    this.#flapping = flapping;
    this.#events = events;
    this.voterLease = new VoterLease(voterLeaseMs(state.options));
    this.#timer = new RearmableTimer(state.outbox, 'election');
  }

  get isRunning(): boolean {
    return this.#phase !== 'none';
  }

  /** A leader was heard, or this voter has granted its vote. */
  wait(): void {
    this.#phase = 'none';
    this.#graceUsed = false;
    this.#delayMs ??= electionDelayMs(this.#timeoutMs, this.#ranking, this.#state.random);
    this.#timer.set(this.#state.outbox.nowMs + this.#delayMs);
  }

  /** Draws a new delay next time, for another leader or another health. */
  resetDelay(): void {
    this.#delayMs = undefined;
  }

  /** The process of the leader ended. */
  startSoon(): void {
    this.resetDelay();
    this.#timer.set(this.#state.outbox.nowMs + leaderGoneDelayMs(this.#timeoutMs, this.#ranking, this.#state.random));
  }

  /** The attempt of this voter failed, and there is no leader. */
  retry(): void {
    this.#phase = 'none';
    this.#timer.set(
      this.#state.outbox.nowMs + electionRetryDelayMs(this.#timeoutMs, this.#ranking, this.#state.random),
    );
  }

  /** Another term ends the attempt of this voter. */
  abort(): void {
    this.#phase = 'none';
    if (this.#timer.dueMs === undefined) this.wait();
  }

  /** This voter leads. */
  stop(): void {
    this.#phase = 'none';
    this.resetDelay();
    this.#timer.clear();
  }

  /** True when an election is due. */
  expired(timer: ConsensusTimer): boolean {
    if (!this.#timer.onExpired(timer)) return false;
    const { heartbeatMs } = this.#state.options;
    if (this.#graceUsed || this.#timer.lateMs < heartbeatMs) return true;
    this.#graceUsed = true;
    this.#timer.set(this.#state.outbox.nowMs + heartbeatMs);
    return false;
  }

  start(): void {
    const state = this.#state;
    const { outbox } = state;
    this.resetDelay();
    if (!state.isVoter || state.diskFailed || state.term >= termMax) return this.retry();
    if (this.voterLease.isBound(outbox.nowMs)) return this.#timer.set(this.voterLease.untilMs);
    this.retry();
    state.role = 'candidate';
    this.#phase = 'preVote';
    this.#granted = new Set([state.self]);
    if (this.#hasMajority()) return this.#campaign(undefined);
    const term = state.term + 1;
    const { lastIndex, lastTerm } = state.log;
    for (const to of this.#otherVoters()) {
      outbox.send(to, { kind: 'preVote', group: state.group, term, lastIndex, lastTerm });
    }
  }

  /** The leader has released its lease, so no pre-vote is needed. */
  onTimeoutNow(released: ReleasedLease): void {
    const { isVoter, diskFailed, term } = this.#state;
    if (!isVoter || diskFailed || term >= termMax) return;
    this.retry();
    this.#campaign(released);
  }

  #campaign(released: ReleasedLease | undefined): void {
    const state = this.#state;
    this.#events.started();
    state.raiseTerm(state.term + 1);
    state.voteFor(state.self);
    state.role = 'candidate';
    this.#phase = 'vote';
    this.#granted = new Set([state.self]);
    state.persist();
    const { group, term } = state;
    const { lastIndex, lastTerm } = state.log;
    const release = { releasedTerm: released?.term, releasedRound: released?.round };
    for (const to of this.#otherVoters()) {
      state.outbox.send(to, { kind: 'requestVote', group, term, lastIndex, lastTerm, ...release });
    }
  }

  /** This voter's own vote counts when it is durable. */
  durable(): void {
    const { term, durability } = this.#state;
    if (this.#phase !== 'vote' || durability.term < term || !this.#hasMajority()) return;
    this.#phase = 'none';
    this.#events.won();
  }

  onPreVoteReply(from: NodeId, { term, requestedTerm, granted }: ConsensusMessageOf<'preVoteReply'>): void {
    const state = this.#state;
    if (!granted && term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'preVote' || !granted || requestedTerm !== state.term + 1) return;
    this.#granted.add(from);
    if (this.#hasMajority()) this.#campaign(undefined);
  }

  onVoteReply(from: NodeId, { term, granted }: ConsensusMessageOf<'requestVoteReply'>): void {
    const state = this.#state;
    if (term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'vote' || !granted || term !== state.term) return;
    this.#granted.add(from);
    this.durable();
  }

  onPreVoteRequest(from: NodeId, message: ConsensusMessageOf<'preVote'>): void {
    const { outbox, group, term, role } = this.#state;
    const isFree = role !== 'leader' && !this.voterLease.isBound(outbox.nowMs);
    const granted = isFree && message.term > term && this.#isUpToDate(message);
    this.#state.persist();
    outbox.send(from, { kind: 'preVoteReply', group, term, requestedTerm: message.term, granted });
  }

  onVoteRequest(from: NodeId, message: ConsensusMessageOf<'requestVote'>): void {
    const state = this.#state;
    if (message.term > state.term) {
      if (this.#isBound(message)) return;
      this.#events.superseded(message.term);
    }
    const isFree = state.vote === undefined ? state.leader === undefined : state.vote === from;
    const granted = message.term === state.term && isFree && this.#isUpToDate(message);
    if (granted) {
      state.voteFor(from);
      this.wait();
    }
    state.persist();
    state.outbox.send(from, { kind: 'requestVoteReply', group: state.group, term: state.term, granted });
  }

  #isBound({ releasedTerm, releasedRound }: ConsensusMessageOf<'requestVote'>): boolean {
    const released =
      releasedTerm === undefined || releasedRound === undefined
        ? undefined
        : { term: releasedTerm, round: releasedRound };
    if (this.#state.role === 'leader') return released === undefined || !this.#events.hasReleased(released);
    return this.voterLease.isBound(this.#state.outbox.nowMs, released);
  }

  #isUpToDate({ lastTerm, lastIndex }: { readonly lastTerm: number; readonly lastIndex: number }): boolean {
    const { log } = this.#state;
    return lastTerm > log.lastTerm || (lastTerm === log.lastTerm && lastIndex >= log.lastIndex);
  }

  #hasMajority(): boolean {
    return this.#state.members.isMajority(this.#granted);
  }

  #otherVoters(): readonly NodeId[] {
    return this.#state.members.voters.filter((id) => id !== this.#state.self);
  }

  get #timeoutMs(): number {
    return this.#state.options.electionTimeoutMs;
  }

  get #ranking(): ElectionRanking {
    const { members, self, health, options, outbox } = this.#state;
    return {
      health,
      priority: options.priority,
      rank: Math.max(0, members.voters.indexOf(self)),
      cooldownRatio: this.#flapping.cooldownRatio(outbox.nowMs),
      isOnlyVoter: members.voters.length === 1,
    };
  }
}
