/**
 * Elections: pre-vote, votes, one vote per term and only for a log at least as new. Pre-vote asks whether a vote could
 * be won and changes nothing. Grants none while a leader lease binds this voter.
 */
import { termMax } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { ConsensusMessage } from '../../messages/consensus.ts';
import { RearmableTimer } from '../state/rearmable-timer.ts';
import { type ElectionRanking, electionDelayMs, leaderGoneDelayMs, electionRetryDelayMs } from './election-delay.ts';
import type { LeaderFlapping } from './leader-flapping.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import { voterLeaseMs } from '../state/options.ts';
import type { ConsensusTimer } from '../state/effects.ts';
import { type ReleasedLease, VoterLease } from './voter-lease.ts';

export type ConsensusMessageOf<Kind extends ConsensusMessage['kind']> = Extract<
  ConsensusMessage,
  { readonly kind: Kind }
>;

export type ElectionEvents = {
  /** A new term begins with us as a candidate: nobody leads in it. */
  standing(): void;
  won(): void;
  /** A higher term was heard of: whatever we were, we follow now. */
  superseded(term: number): void;
  /** We lead, and have given our lease up in favour of whoever names this. */
  handedOver(word: ReleasedLease): boolean;
};

export class Election {
  readonly promise: VoterLease;
  readonly #state: ConsensusState;
  readonly #flapping: LeaderFlapping;
  readonly #events: ElectionEvents;
  readonly #alarm: RearmableTimer;
  #phase: 'none' | 'preVote' | 'vote' = 'none';
  #granted = new Set<NodeId>();
  /** Drawn when a leader is first heard, not with each of its messages. */
  #delayMs: number | undefined;
  /** We slept, and what was sent to us meanwhile is read first. */
  #excused = false;

  constructor(state: ConsensusState, flapping: LeaderFlapping, events: ElectionEvents) {
    this.#state = state;
    this.#flapping = flapping;
    this.#events = events;
    this.promise = new VoterLease(voterLeaseMs(state.options));
    this.#alarm = new RearmableTimer(state.outbox, 'election');
  }

  get isRunning(): boolean {
    return this.#phase !== 'none';
  }

  /** A leader was heard, or is being elected with our vote: wait for it. */
  wait(): void {
    this.#phase = 'none';
    this.#excused = false;
    this.#delayMs ??= electionDelayMs(this.#timeoutMs, this.#candidate, this.#state.random);
    this.#alarm.set(this.#state.outbox.nowMs + this.#delayMs);
  }

  /** Another leader, or another health: the next wait has another length. */
  resetDelay(): void {
    this.#delayMs = undefined;
  }

  /** The process of the leader is gone. */
  startSoon(): void {
    this.resetDelay();
    this.#alarm.set(this.#state.outbox.nowMs + leaderGoneDelayMs(this.#timeoutMs, this.#candidate, this.#state.random));
  }

  /** Nobody leads and our own attempt is over. */
  retry(): void {
    this.#phase = 'none';
    this.#alarm.set(
      this.#state.outbox.nowMs + electionRetryDelayMs(this.#timeoutMs, this.#candidate, this.#state.random),
    );
  }

  /** Our attempt is over, because another term has begun. */
  abort(): void {
    this.#phase = 'none';
    if (this.#alarm.dueMs === undefined) this.wait();
  }

  /** We lead: there is nothing to wait for. */
  stop(): void {
    this.#phase = 'none';
    this.resetDelay();
    this.#alarm.clear();
  }

  /** True when it is time to stand. */
  expired(timer: ConsensusTimer): boolean {
    if (!this.#alarm.onExpired(timer)) return false;
    const { heartbeatMs } = this.#state.options;
    if (this.#excused || this.#alarm.lateMs < heartbeatMs) return true;
    this.#excused = true;
    this.#alarm.set(this.#state.outbox.nowMs + heartbeatMs);
    return false;
  }

  start(): void {
    const state = this.#state;
    const { outbox } = state;
    this.resetDelay();
    if (!state.isVoter || state.diskFailed || state.term >= termMax) return this.retry();
    if (this.promise.isBound(outbox.nowMs)) return this.#alarm.set(this.promise.untilMs);
    this.retry();
    state.role = 'candidate';
    this.#phase = 'preVote';
    this.#granted = new Set([state.self]);
    if (this.#hasMajority()) return this.#campaign(undefined);
    const term = state.term + 1;
    const { lastIndex, lastTerm } = state.log;
    for (const to of this.#others()) {
      outbox.send(to, { kind: 'preVote', group: state.group, term, lastIndex, lastTerm });
    }
  }

  /** The leader asks us to take over: no pre-vote, because it has given its lease up. */
  onTimeoutNow(word: ReleasedLease): void {
    const { isVoter, diskFailed, term } = this.#state;
    if (!isVoter || diskFailed || term >= termMax) return;
    this.retry();
    this.#campaign(word);
  }

  #campaign(word: ReleasedLease | undefined): void {
    const state = this.#state;
    this.#events.standing();
    state.raiseTerm(state.term + 1);
    state.voteFor(state.self);
    state.role = 'candidate';
    this.#phase = 'vote';
    this.#granted = new Set([state.self]);
    state.persist();
    const { group, term } = state;
    const { lastIndex, lastTerm } = state.log;
    const handedOver = { releasedTerm: word?.term, releasedRound: word?.round };
    for (const to of this.#others()) {
      state.outbox.send(to, { kind: 'vote', group, term, lastIndex, lastTerm, ...handedOver });
    }
  }

  /** Our own vote counts when it is durable. */
  durable(): void {
    const { term, durability } = this.#state;
    if (this.#phase !== 'vote' || durability.term < term || !this.#hasMajority()) return;
    this.#phase = 'none';
    this.#events.won();
  }

  preVoted(from: NodeId, { term, requestedTerm, granted }: ConsensusMessageOf<'preVoteReply'>): void {
    const state = this.#state;
    if (!granted && term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'preVote' || !granted || requestedTerm !== state.term + 1) return;
    this.#granted.add(from);
    if (this.#hasMajority()) this.#campaign(undefined);
  }

  onVoteReply(from: NodeId, { term, granted }: ConsensusMessageOf<'voteReply'>): void {
    const state = this.#state;
    if (term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'vote' || !granted || term !== state.term) return;
    this.#granted.add(from);
    this.durable();
  }

  onPreVoteRequest(from: NodeId, message: ConsensusMessageOf<'preVote'>): void {
    const { outbox, group, term, role } = this.#state;
    const isFree = role !== 'leader' && !this.promise.isBound(outbox.nowMs);
    const granted = isFree && message.term > term && this.#isNoOlder(message);
    this.#state.persist();
    outbox.send(from, { kind: 'preVoteReply', group, term, requestedTerm: message.term, granted });
  }

  onVoteRequest(from: NodeId, message: ConsensusMessageOf<'vote'>): void {
    const state = this.#state;
    if (message.term > state.term) {
      if (this.#isBound(message)) return;
      this.#events.superseded(message.term);
    }
    const isFree = state.vote === undefined ? state.leader === undefined : state.vote === from;
    const granted = message.term === state.term && isFree && this.#isNoOlder(message);
    if (granted) {
      state.voteFor(from);
      this.wait();
    }
    state.persist();
    state.outbox.send(from, { kind: 'voteReply', group: state.group, term: state.term, granted });
  }

  #isBound({ releasedTerm, releasedRound }: ConsensusMessageOf<'vote'>): boolean {
    const word =
      releasedTerm === undefined || releasedRound === undefined
        ? undefined
        : { term: releasedTerm, round: releasedRound };
    if (this.#state.role === 'leader') return word === undefined || !this.#events.handedOver(word);
    return this.promise.isBound(this.#state.outbox.nowMs, word);
  }

  #isNoOlder({ lastTerm, lastIndex }: { readonly lastTerm: number; readonly lastIndex: number }): boolean {
    const { log } = this.#state;
    return lastTerm > log.lastTerm || (lastTerm === log.lastTerm && lastIndex >= log.lastIndex);
  }

  #hasMajority(): boolean {
    return this.#state.members.isMajority(this.#granted);
  }

  #others(): readonly NodeId[] {
    return this.#state.members.voters.filter((id) => id !== this.#state.self);
  }

  get #timeoutMs(): number {
    return this.#state.options.electionTimeoutMs;
  }

  get #candidate(): ElectionRanking {
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
