/**
 * Transfers leadership to the best caught-up voter: while no new proposal is accepted it gets all entries; then the leader
 * releases its lease and sends timeoutNow. If the target does not win in time the leader continues, with a lease that
 * counts later rounds only, so that a late requestVote finds no majority.
 */
import { failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { leaderHealthMax } from '../election/election-delay.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { LogReplicator } from './log-replicator.ts';
import type { ReleasedLease } from '../election/voter-lease.ts';
import type { HeartbeatRounds } from './heartbeat-rounds.ts';

type TransferAttempt = { readonly to: NodeId; readonly call: number | undefined; untilMs: number; isReleased: boolean };

export class LeadershipTransfer {
  readonly #state: ConsensusState;
  readonly #rounds: HeartbeatRounds;
  readonly #replicator: LogReplicator;
  #attempt: TransferAttempt | undefined;
  #notBeforeMs = -Infinity;

  constructor(state: ConsensusState, rounds: HeartbeatRounds, replicator: LogReplicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  get isOpen(): boolean {
    return this.#attempt !== undefined;
  }

  /** The lease is released: this leader serves no request until another one is elected or the transfer fails. */
  get hasReleasedLease(): boolean {
    return this.#attempt?.isReleased === true;
  }

  /** The pending call that requested the transfer. */
  get call(): number | undefined {
    return this.#attempt?.call;
  }

  start(to: NodeId | undefined, call: number | undefined): void {
    const { options, outbox } = this.#state;
    if (this.isOpen) return this.#fail(call, 'CAPACITY', 'a leadership transfer is already in progress');
    const target = to ?? this.#bestSuccessor();
    if (target === undefined) return this.#fail(call, 'PRECONDITION', 'no other voter has caught up with the log');
    if (target === this.#state.self) return this.#fail(call, 'PRECONDITION', 'that voter is already the leader');
    if (!this.#state.members.isVoter(target)) return this.#fail(call, 'PRECONDITION', 'the target is not a voter');
    this.#attempt = { to: target, call, untilMs: outbox.nowMs + options.electionTimeoutMs, isReleased: false };
  }

  /** An unhealthy leader transfers leadership to a healthier voter; it stays if there is none. */
  startIfUnhealthy(isFlapping: boolean): void {
    const { health, outbox, options } = this.#state;
    if (health <= leaderHealthMax || isFlapping || this.isOpen || outbox.nowMs < this.#notBeforeMs) return;
    const to = this.#bestSuccessor(leaderHealthMax);
    if (to === undefined) return;
    this.#notBeforeMs = outbox.nowMs + 10 * options.electionTimeoutMs;
    this.start(to, undefined);
  }

  /** At the end of each step: releases the lease as soon as the target has all entries. */
  advance(): void {
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.isReleased) return;
    if (this.#replicator.peers.get(attempt.to)?.match !== this.#state.log.lastIndex) return;
    attempt.isReleased = true;
    attempt.untilMs = this.#state.outbox.nowMs + this.#state.options.electionTimeoutMs;
    this.#rounds.freeze();
    this.#sendTimeoutNow(attempt.to);
  }

  /** True if a transfer with a released lease has failed. */
  tick(): boolean {
    const attempt = this.#attempt;
    if (attempt === undefined) return false;
    if (this.#state.outbox.nowMs < attempt.untilMs) {
      if (attempt.isReleased) this.#sendTimeoutNow(attempt.to);
      return false;
    }
    this.#attempt = undefined;
    if (attempt.isReleased) this.#replicator.resetRounds();
    this.#fail(attempt.call, 'DEADLINE', 'the target was not elected in time; this node stays the leader');
    return attempt.isReleased;
  }

  /** On stepping down: the best voter need not wait for the lease. */
  releaseOnStepDown(): void {
    const to = this.#bestSuccessor();
    this.#rounds.freeze();
    if (to !== undefined) this.#sendTimeoutNow(to);
  }

  /** This leader has released exactly the lease that the candidate names. */
  matches({ term, round }: ReleasedLease): boolean {
    return this.hasReleasedLease && term === this.#state.term && round >= this.#rounds.current;
  }

  #sendTimeoutNow(to: NodeId): void {
    const { outbox, group, term } = this.#state;
    outbox.sendImmediately(to, { kind: 'timeoutNow', group, term, round: this.#rounds.current });
  }

  /** Among caught-up voters the one with the highest match, then the healthiest, then the lowest id. */
  #bestSuccessor(healthAtMost = Infinity): NodeId | undefined {
    const { members, self } = this.#state;
    const { peers } = this.#replicator;
    const rank = (id: NodeId): readonly [number, number] => {
      const peer = peers.get(id);
      return [peer?.match ?? 0, -(peer?.health ?? 0)];
    };
    return members.voters
      .filter((id) => id !== self && this.#replicator.isCaughtUp(id))
      .filter((id) => (peers.get(id)?.health ?? 0) <= healthAtMost)
      .toSorted((a, b) => rank(b)[0] - rank(a)[0] || rank(b)[1] - rank(a)[1])[0];
  }

  #fail(call: number | undefined, code: 'CAPACITY' | 'PRECONDITION' | 'DEADLINE', text: string): void {
    if (call !== undefined)
      this.#state.outbox.put({
        kind: 'callEnded',
        call,
        outcome: failure(code, text, code === 'DEADLINE' ? 'maybe' : 'no'),
        immediate: true,
      });
  }
}
