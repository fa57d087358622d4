/**
 * Calls by their ids, without a text for each: those with the same number, of different callers, stand in a line that is
 * hardly ever longer than there are callers. What was added last is found first.
 */
import { CounterIndex } from '../../../base/collections/counter-index.ts';
import type { CallId } from '../../../base/ids.ts';
import type { PendingCall } from './pending-call.ts';

export class CallIndex {
  readonly #calls = new CounterIndex<PendingCall>();

  get size(): number {
    return this.#calls.size;
  }

  find(id: CallId): PendingCall | undefined {
    let pending = this.#calls.find(id.counter);
    while (pending !== undefined && !isSame(pending.call.id, id)) pending = pending.nextInChain;
    return pending;
  }

  add(pending: PendingCall): void {
    this.#calls.add(pending);
  }

  /** False: it was not there. */
  delete(pending: PendingCall): boolean {
    return this.#calls.delete(pending);
  }

  all(): PendingCall[] {
    return this.#calls.all();
  }
}

function isSame(one: CallId, other: CallId): boolean {
  return one.counter === other.counter && one.generation === other.generation && one.session === other.session;
}
