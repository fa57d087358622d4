/**
 * Hands leadership to the best caught-up voter: it gets all entries while nothing new is taken, then the lease is given
 * up for good and it is told to stand at once. If the target does not take over in time the leader goes on, with a
 * lease that counts later rounds only, so that a late vote request finds no majority.
 */
import { failure } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { leaderHealthMax } from '../election/election-delay.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { LogReplicator } from './log-replicator.ts';
import type { ReleasedLease } from '../election/voter-lease.ts';
import type { HeartbeatRounds } from './heartbeat-rounds.ts';

type Attempt = { readonly to: NodeId; readonly call: number | undefined; untilMs: number; asked: boolean };

export class LeadershipTransfer {
  readonly #state: ConsensusState;
  readonly #rounds: HeartbeatRounds;
  readonly #replicator: LogReplicator;
  #attempt: Attempt | undefined;
  #restUntilMs = -Infinity;

  constructor(state: ConsensusState, rounds: HeartbeatRounds, replicator: LogReplicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  get isOpen(): boolean {
    return this.#attempt !== undefined;
  }

  /** We have given our lease up: we serve nobody, until somebody else does or we change our mind. */
  get hasReleasedLease(): boolean {
    return this.#attempt?.asked === true;
  }

  /** The call that waits for it. */
  get call(): number | undefined {
    return this.#attempt?.call;
  }

  start(to: NodeId | undefined, call: number | undefined): void {
    const { options, outbox } = this.#state;
    if (this.isOpen) return this.#refuse(call, 'CAPACITY', 'leadership is being handed over already');
    const target = to ?? this.#bestSuccessor();
    if (target === undefined) return this.#refuse(call, 'PRECONDITION', 'no other voter has caught up');
    if (target === this.#state.self) return this.#refuse(call, 'PRECONDITION', 'that voter leads already');
    if (!this.#state.members.isVoter(target)) return this.#refuse(call, 'PRECONDITION', 'it is no voter');
    this.#attempt = { to: target, call, untilMs: outbox.nowMs + options.electionTimeoutMs, asked: false };
  }

  /** A leader that does not feel well looks for a healthier voter; it stays if there is none. */
  startIfUnhealthy(isFlapping: boolean): void {
    const { health, outbox, options } = this.#state;
    if (health <= leaderHealthMax || isFlapping || this.isOpen || outbox.nowMs < this.#restUntilMs) return;
    const to = this.#bestSuccessor(leaderHealthMax);
    if (to === undefined) return;
    this.#restUntilMs = outbox.nowMs + 10 * options.electionTimeoutMs;
    this.start(to, undefined);
  }

  /** At the end of each step: asks as soon as the other has everything. */
  advance(): void {
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.asked) return;
    if (this.#replicator.peers.get(attempt.to)?.match !== this.#state.log.lastIndex) return;
    attempt.asked = true;
    attempt.untilMs = this.#state.outbox.nowMs + this.#state.options.electionTimeoutMs;
    this.#rounds.freeze();
    this.#ask(attempt.to);
  }

  /** True when we take back what we have given up. */
  tick(): boolean {
    const attempt = this.#attempt;
    if (attempt === undefined) return false;
    if (this.#state.outbox.nowMs < attempt.untilMs) {
      if (attempt.asked) this.#ask(attempt.to);
      return false;
    }
    this.#attempt = undefined;
    if (attempt.asked) this.#replicator.resetRounds();
    this.#refuse(attempt.call, 'DEADLINE', 'the other voter did not take over; this node goes on');
    return attempt.asked;
  }

  /** We step down now, whoever follows: the best voter need not wait for our lease. */
  releaseOnStepDown(): void {
    const to = this.#bestSuccessor();
    this.#rounds.freeze();
    if (to !== undefined) this.#ask(to);
  }

  /** We gave up exactly what the candidate was told. */
  matches({ term, round }: ReleasedLease): boolean {
    return this.hasReleasedLease && term === this.#state.term && round >= this.#rounds.current;
  }

  #ask(to: NodeId): void {
    const { outbox, group, term } = this.#state;
    outbox.sendImmediately(to, { kind: 'takeOver', group, term, round: this.#rounds.current });
  }

  /** The most advanced of the voters that have caught up, then the healthiest, then the lowest id. */
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

  #refuse(call: number | undefined, code: 'CAPACITY' | 'PRECONDITION' | 'DEADLINE', text: string): void {
    if (call !== undefined)
      this.#state.outbox.put({
        kind: 'ended',
        call,
        outcome: failure(code, text, code === 'DEADLINE' ? 'maybe' : 'no'),
        immediate: true,
      });
  }
}
