/**
 * Handing leadership over: first the other voter gets all entries (nothing new is taken meanwhile), then the leader
 * gives its lease up for good and asks the other to stand at once. If nobody takes over within a bound, the leader goes
 * on, with a lease that rests on later rounds only, so that a request that arrives late finds no majority.
 */
import { failure } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import { healthMax } from './eligibility.ts';
import type { GroupState } from './group-state.ts';
import type { Replicator } from './replicator.ts';
import type { HandedOver } from './promise.ts';
import type { Rounds } from './rounds.ts';

type Attempt = { readonly to: NodeId; readonly call: number | undefined; untilMs: number; asked: boolean };

export class Transfer {
  readonly #state: GroupState;
  readonly #rounds: Rounds;
  readonly #replicator: Replicator;
  #attempt: Attempt | undefined;
  #restUntilMs = -Infinity;

  constructor(state: GroupState, rounds: Rounds, replicator: Replicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  get isOpen(): boolean {
    return this.#attempt !== undefined;
  }

  /** We have given our lease up: we serve nobody, until somebody else does or we change our mind. */
  get hasAsked(): boolean {
    return this.#attempt?.asked === true;
  }

  /** The call that waits for it. */
  get call(): number | undefined {
    return this.#attempt?.call;
  }

  start(to: NodeId | undefined, call: number | undefined): void {
    const { options, out } = this.#state;
    if (this.isOpen) return this.#refuse(call, 'CAPACITY', 'leadership is being handed over already');
    const target = to ?? this.#best();
    if (target === undefined) return this.#refuse(call, 'PRECONDITION', 'no other voter has caught up');
    if (target === this.#state.self) return this.#refuse(call, 'PRECONDITION', 'that voter leads already');
    if (!this.#state.members.isVoter(target)) return this.#refuse(call, 'PRECONDITION', 'it is no voter');
    this.#attempt = { to: target, call, untilMs: out.nowMs + options.electionTimeoutMs, asked: false };
  }

  /** A leader that does not feel well looks for a healthier voter; it stays if there is none. */
  considerHealth(isFlapping: boolean): void {
    const { health, out, options } = this.#state;
    if (health <= healthMax || isFlapping || this.isOpen || out.nowMs < this.#restUntilMs) return;
    const to = this.#best(healthMax);
    if (to === undefined) return;
    this.#restUntilMs = out.nowMs + 10 * options.electionTimeoutMs;
    this.start(to, undefined);
  }

  /** At the end of each step: asks as soon as the other has everything. */
  settle(): void {
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.asked) return;
    if (this.#replicator.peers.get(attempt.to)?.match !== this.#state.log.lastIndex) return;
    attempt.asked = true;
    attempt.untilMs = this.#state.out.nowMs + this.#state.options.electionTimeoutMs;
    this.#rounds.freeze();
    this.#ask(attempt.to);
  }

  /** True when we take back what we have given up. */
  tick(): boolean {
    const attempt = this.#attempt;
    if (attempt === undefined) return false;
    if (this.#state.out.nowMs < attempt.untilMs) {
      if (attempt.asked) this.#ask(attempt.to);
      return false;
    }
    this.#attempt = undefined;
    if (attempt.asked) this.#replicator.forgetRounds();
    this.#refuse(attempt.call, 'DEADLINE', 'the other voter did not take over; this node goes on');
    return attempt.asked;
  }

  /** We step down now, whoever follows: the best voter need not wait for our lease. */
  farewell(): void {
    const to = this.#best();
    this.#rounds.freeze();
    if (to !== undefined) this.#ask(to);
  }

  /** We gave up exactly what the candidate was told. */
  isHandedOver({ term, round }: HandedOver): boolean {
    return this.hasAsked && term === this.#state.term && round >= this.#rounds.current;
  }

  #ask(to: NodeId): void {
    const { out, group, term } = this.#state;
    out.sendAhead(to, { kind: 'takeOver', group, term, round: this.#rounds.current });
  }

  /** The most advanced of the voters that have caught up, then the healthiest, then the lowest id. */
  #best(healthAtMost = Infinity): NodeId | undefined {
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
    if (call !== undefined) this.#state.out.put({ kind: 'ended', call, outcome: failure(code, text), ahead: true });
  }
}
