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
  /** Calls without a round yet. */
  #unbound: number[] = [];
  #waiting: Read[] = [];

  constructor(state: ConsensusState, rounds: HeartbeatRounds, replicator: LogReplicator) {
    this.#state = state;
    this.#rounds = rounds;
    this.#replicator = replicator;
  }

  request(call: number): void {
    if (this.#unbound.length + this.#waiting.length < readsMax) this.#unbound.push(call);
    else this.#state.outbox.put({ kind: 'callEnded', call, outcome: failure('CAPACITY'), immediate: true });
  }

  /** `isReady`: an entry of this term is committed and applied. */
  advance(leaseHolds: boolean, isReady: boolean): void {
    if (this.#unbound.length + this.#waiting.length === 0 || !isReady) return;
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
      // Reads that arrive while a round is open share the next one.
      this.#replicator.heartbeat();
      const round = this.#rounds.current;
      this.#waiting.push(...this.#unbound.splice(0).map((call) => ({ call, index, round })));
    }
    this.#completeReads();
  }

  failAll(): void {
    const calls = [...this.#unbound, ...this.#waiting.map(({ call }) => call)];
    for (const call of calls)
      this.#state.outbox.put({
        kind: 'callEnded',
        call,
        outcome: failure('NOT_LEADER', undefined, 'no'),
        immediate: true,
      });
    this.#unbound = [];
    this.#waiting = [];
  }

  #completeReads(): void {
    const { appliedIndex, outbox } = this.#state;
    this.#waiting = this.#waiting.filter(({ call, index, round }) => {
      if (appliedIndex < index || this.#isOpen(round)) return true;
      outbox.put({ kind: 'callEnded', call, outcome: success(undefined), immediate: true });
      return false;
    });
  }

  #isOpen(round: number): boolean {
    return round > 0 && !this.#replicator.isAnsweredByMajority(round);
  }
}
