/**
 * Linearizable reads without a log entry: by the lease, or by a heartbeat round that began after the request. Needs a
 * committed entry of this term.
 */
import { failure, success } from '../../base/errors.ts';
import type { ConsensusState } from '../state/consensus-state.ts';
import type { LogReplicator } from './log-replicator.ts';
import type { HeartbeatRounds } from './heartbeat-rounds.ts';

const readsMax = 16_384;

type Read = { readonly call: number; index: number; round: number };

export class ReadIndex {
  readonly #state: ConsensusState;
  readonly #rounds: HeartbeatRounds;
  readonly #replicator: LogReplicator;
  /** Not bound to a round yet. */
  #unbound: number[] = [];
  #waiting: Read[] = [];

  constructor(state: ConsensusState, rounds: HeartbeatRounds, replicator: LogReplicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  request(call: number): void {
    if (this.#unbound.length + this.#waiting.length < readsMax) this.#unbound.push(call);
    else this.#state.outbox.put({ kind: 'ended', call, outcome: failure('CAPACITY'), immediate: true });
  }

  /** `leaseHolds`: and an entry of our term is agreed. */
  settle(leaseHolds: boolean, isOpen: boolean): void {
    if (this.#unbound.length + this.#waiting.length === 0 || !isOpen) return;
    const { commitIndex: index } = this.#state;
    if (leaseHolds) {
      this.#waiting = [
        ...this.#waiting.map((read) => ({ ...read, round: 0 })),
        ...this.#unbound.splice(0).map((call) => ({ call, index, round: 0 })),
      ];
    } else if (
      this.#unbound.length > 0 &&
      !this.#rounds.frozen &&
      !this.#waiting.some(({ round }) => this.#isOpen(round))
    ) {
      // Those who come while a round is under way share the next one.
      this.#replicator.heartbeat();
      const round = this.#rounds.current;
      this.#waiting.push(...this.#unbound.splice(0).map((call) => ({ call, index, round })));
    }
    this.#end();
  }

  failAll(): void {
    const calls = [...this.#unbound, ...this.#waiting.map(({ call }) => call)];
    for (const call of calls)
      this.#state.outbox.put({ kind: 'ended', call, outcome: failure('NOT_LEADER', undefined, 'no'), immediate: true });
    this.#unbound = [];
    this.#waiting = [];
  }

  #end(): void {
    const { appliedIndex, outbox } = this.#state;
    this.#waiting = this.#waiting.filter(({ call, index, round }) => {
      if (appliedIndex < index || this.#isOpen(round)) return true;
      outbox.put({ kind: 'ended', call, outcome: success(undefined), immediate: true });
      return false;
    });
  }

  #isOpen(round: number): boolean {
    return round > 0 && !this.#replicator.isAnsweredByMajority(round);
  }
}
