/**
 * Standing for election and voting. A voter that has not heard a leader for its time first asks whether it would be
 * elected, which changes nothing (pre-vote); with the consent of a majority of the configured voters it raises the term,
 * votes for itself, and asks for votes. Voters grant one vote per term, to a candidate whose log is no older, and none
 * while they are bound to a leader (promise.ts).
 */
import { termMax } from '../base/fence.ts';
import type { NodeId } from '../base/ids.ts';
import type { ConsensusMessage } from '../messages/consensus.ts';
import { Alarm } from './alarm.ts';
import { type Candidate, firstDelayMs, goneDelayMs, retryDelayMs } from './eligibility.ts';
import type { Flapping } from './flapping.ts';
import type { GroupState } from './group-state.ts';
import { promiseMs } from './options.ts';
import type { Timer } from './outbox.ts';
import { type HandedOver, VoterPromise } from './promise.ts';

export type MessageNamed<Kind extends ConsensusMessage['kind']> = Extract<ConsensusMessage, { readonly kind: Kind }>;

export type ElectionEvents = {
  /** A new term begins with us as a candidate: nobody leads in it. */
  standing(): void;
  won(): void;
  /** A higher term was heard of: whatever we were, we follow now. */
  superseded(term: number): void;
  /** We lead, and have given our lease up in favour of whoever names this. */
  handedOver(word: HandedOver): boolean;
};

export class Election {
  readonly promise: VoterPromise;
  readonly #state: GroupState;
  readonly #flapping: Flapping;
  readonly #events: ElectionEvents;
  readonly #alarm: Alarm;
  #phase: 'none' | 'preVote' | 'vote' = 'none';
  #granted = new Set<NodeId>();
  /** Drawn when a leader is first heard, not with each of its messages. */
  #delayMs: number | undefined;
  /** We slept, and what was sent to us meanwhile is read first. */
  #excused = false;

  constructor(state: GroupState, flapping: Flapping, events: ElectionEvents) {
    this.#state = state;
    this.#flapping = flapping;
    this.#events = events;
    this.promise = new VoterPromise(promiseMs(state.options));
    this.#alarm = new Alarm(state.out, 'election');
  }

  get isStanding(): boolean {
    return this.#phase !== 'none';
  }

  /** A leader was heard, or is being elected with our vote: wait for it. */
  wait(): void {
    this.#phase = 'none';
    this.#excused = false;
    this.#delayMs ??= firstDelayMs(this.#timeoutMs, this.#candidate, this.#state.random);
    this.#alarm.set(this.#state.out.nowMs + this.#delayMs);
  }

  /** Another leader, or another health: the next wait has another length. */
  redraw(): void {
    this.#delayMs = undefined;
  }

  /** The process of the leader is gone. */
  hurry(): void {
    this.redraw();
    this.#alarm.set(this.#state.out.nowMs + goneDelayMs(this.#timeoutMs, this.#candidate, this.#state.random));
  }

  /** Nobody leads and our own attempt is over. */
  retry(): void {
    this.#phase = 'none';
    this.#alarm.set(this.#state.out.nowMs + retryDelayMs(this.#timeoutMs, this.#candidate, this.#state.random));
  }

  /** Our attempt is over, because another term has begun. */
  giveUp(): void {
    this.#phase = 'none';
    if (this.#alarm.dueMs === undefined) this.wait();
  }

  /** We lead: there is nothing to wait for. */
  rest(): void {
    this.#phase = 'none';
    this.redraw();
    this.#alarm.clear();
  }

  /** True when it is time to stand. */
  expired(timer: Timer): boolean {
    if (!this.#alarm.expired(timer)) return false;
    const { heartbeatMs } = this.#state.options;
    if (this.#excused || this.#alarm.lateMs < heartbeatMs) return true;
    this.#excused = true;
    this.#alarm.set(this.#state.out.nowMs + heartbeatMs);
    return false;
  }

  stand(): void {
    const state = this.#state;
    const { out } = state;
    this.redraw();
    if (!state.isVoter || state.diskFailed || state.term >= termMax) return this.retry();
    if (this.promise.binds(out.nowMs)) return this.#alarm.set(this.promise.untilMs);
    this.retry();
    state.role = 'candidate';
    this.#phase = 'preVote';
    this.#granted = new Set([state.self]);
    if (this.#hasMajority()) return this.#campaign(undefined);
    const term = state.term + 1;
    const { lastIndex, lastTerm } = state.log;
    for (const to of this.#others()) {
      out.send(to, { kind: 'preVote', group: state.group, term, lastIndex, lastTerm });
    }
  }

  /** The leader asks us to take over: no pre-vote, because it has given its lease up. */
  takeOver(word: HandedOver): void {
    const { isVoter, diskFailed, term } = this.#state;
    if (!isVoter || diskFailed || term >= termMax) return;
    this.retry();
    this.#campaign(word);
  }

  #campaign(word: HandedOver | undefined): void {
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
    const handedOver = { handedOverTerm: word?.term, handedOverRound: word?.round };
    for (const to of this.#others()) {
      state.out.send(to, { kind: 'vote', group, term, lastIndex, lastTerm, ...handedOver });
    }
  }

  /** Our own vote counts when it is durable. */
  durable(): void {
    const { term, durability } = this.#state;
    if (this.#phase !== 'vote' || durability.term < term || !this.#hasMajority()) return;
    this.#phase = 'none';
    this.#events.won();
  }

  preVoted(from: NodeId, { term, asked, granted }: MessageNamed<'preVoteReply'>): void {
    const state = this.#state;
    if (!granted && term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'preVote' || !granted || asked !== state.term + 1) return;
    this.#granted.add(from);
    if (this.#hasMajority()) this.#campaign(undefined);
  }

  voted(from: NodeId, { term, granted }: MessageNamed<'voteReply'>): void {
    const state = this.#state;
    if (term > state.term) return this.#events.superseded(term);
    if (this.#phase !== 'vote' || !granted || term !== state.term) return;
    this.#granted.add(from);
    this.durable();
  }

  askedToPreVote(from: NodeId, message: MessageNamed<'preVote'>): void {
    const { out, group, term, role } = this.#state;
    const isFree = role !== 'leader' && !this.promise.binds(out.nowMs);
    const granted = isFree && message.term > term && this.#isNoOlder(message);
    this.#state.persist();
    out.send(from, { kind: 'preVoteReply', group, term, asked: message.term, granted });
  }

  askedToVote(from: NodeId, message: MessageNamed<'vote'>): void {
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
    state.out.send(from, { kind: 'voteReply', group: state.group, term: state.term, granted });
  }

  #isBound({ handedOverTerm, handedOverRound }: MessageNamed<'vote'>): boolean {
    const word =
      handedOverTerm === undefined || handedOverRound === undefined
        ? undefined
        : { term: handedOverTerm, round: handedOverRound };
    if (this.#state.role === 'leader') return word === undefined || !this.#events.handedOver(word);
    return this.promise.binds(this.#state.out.nowMs, word);
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

  get #candidate(): Candidate {
    const { members, self, health, options, out } = this.#state;
    return {
      health,
      priority: options.priority,
      rank: Math.max(0, members.voters.indexOf(self)),
      cooldownRatio: this.#flapping.cooldownRatio(out.nowMs),
      alone: members.voters.length === 1,
    };
  }
}
