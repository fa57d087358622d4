/**
 * Writes that nothing waits for: snapshot parts and deletions, a few at a time after the writes of the log are durable,
 * so that they never delay the log.
 */
import type { StoreWrite } from '../../base/ports.ts';
import type { ConsensusState } from '../state/consensus-state.ts';

const deletesPerStep = 512;

export class BackgroundWrites {
  readonly #state: ConsensusState;
  #steps: (() => readonly StoreWrite[])[] = [];
  /** A step is running: steps that it adds come after its writes. */
  #inStep = false;

  constructor(state: ConsensusState) {
    this.#state = state;
  }

  get isBusy(): boolean {
    return this.#steps.length > 0;
  }

  /** Each step returns its writes when its turn has come. */
  add(...steps: readonly (() => readonly StoreWrite[])[]): void {
    this.#steps.push(...steps);
    if (!this.#inStep && !this.#state.durability.hasPending) this.next();
  }

  /** There may be very many keys, so they are built when their turn has come. */
  delete(count: number, key: (i: number) => string): void {
    for (let from = 0; from < count; from += deletesPerStep) {
      const length = Math.min(deletesPerStep, count - from);
      this.#steps.push(() => Array.from({ length }, (_, i) => ({ key: key(from + i), value: null })));
    }
    this.add();
  }

  /** A write is durable. */
  next(): void {
    for (let step = this.#steps.shift(); step !== undefined; step = this.#steps.shift()) {
      this.#inStep = true;
      const writes = step();
      this.#inStep = false;
      if (writes.length === 0) continue;
      this.#state.persist(writes);
      return;
    }
  }
}
