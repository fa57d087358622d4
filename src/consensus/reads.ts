/**
 * Read barriers: promises that the state of this leader contains everything that was agreed anywhere before the
 * question. With a lease that holds this is known already; without one, a round of heartbeats that began after the
 * question must be answered by a majority. In both cases an entry of our own term must have been agreed first.
 */
import { failure, success } from '../base/errors.ts';
import type { GroupState } from './group-state.ts';
import type { Replicator } from './replicator.ts';
import type { Rounds } from './rounds.ts';

const readsMax = 16_384;

type Read = { readonly call: number; index: number; round: number };

export class Reads {
  readonly #state: GroupState;
  readonly #rounds: Rounds;
  readonly #replicator: Replicator;
  /** Not bound to a round yet. */
  #new: number[] = [];
  #bound: Read[] = [];

  constructor(state: GroupState, rounds: Rounds, replicator: Replicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  ask(call: number): void {
    if (this.#new.length + this.#bound.length < readsMax) this.#new.push(call);
    else this.#state.out.put({ kind: 'ended', call, outcome: failure('CAPACITY'), ahead: true });
  }

  /** `leaseHolds`: and an entry of our term is agreed. */
  settle(leaseHolds: boolean, isOpen: boolean): void {
    if (this.#new.length + this.#bound.length === 0 || !isOpen) return;
    const { commitIndex: index } = this.#state;
    if (leaseHolds) {
      this.#bound = [
        ...this.#bound.map((read) => ({ ...read, round: 0 })),
        ...this.#new.splice(0).map((call) => ({ call, index, round: 0 })),
      ];
    } else if (this.#new.length > 0 && !this.#rounds.frozen && !this.#bound.some(({ round }) => this.#isOpen(round))) {
      // Those who come while a round is under way share the next one.
      this.#replicator.heartbeat();
      const round = this.#rounds.current;
      this.#bound.push(...this.#new.splice(0).map((call) => ({ call, index, round })));
    }
    this.#end();
  }

  abandon(): void {
    const calls = [...this.#new, ...this.#bound.map(({ call }) => call)];
    for (const call of calls) this.#state.out.put({ kind: 'ended', call, outcome: failure('NOT_LEADER'), ahead: true });
    this.#new = [];
    this.#bound = [];
  }

  #end(): void {
    const { appliedIndex, out } = this.#state;
    this.#bound = this.#bound.filter(({ call, index, round }) => {
      if (appliedIndex < index || this.#isOpen(round)) return true;
      out.put({ kind: 'ended', call, outcome: success(undefined), ahead: true });
      return false;
    });
  }

  #isOpen(round: number): boolean {
    return round > 0 && !this.#replicator.isAnsweredByMajority(round);
  }
}
