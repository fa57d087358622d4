/**
 * Calls by their ids, without a text for each: those with the same number, of different callers, stand in a line that is
 * hardly ever longer than there are callers. What was added last is found first.
 */
import type { CallId } from '../../base/ids.ts';
import type { PendingCall } from './pending-call.ts';

export class CallIndex {
  readonly #byCounter = new Map<number, PendingCall>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  find({ session, generation, counter }: CallId): PendingCall | undefined {
    let pending = this.#byCounter.get(counter);
    while (pending !== undefined && (pending.call.id.generation !== generation || pending.call.id.session !== session))
      pending = pending.nextOfCounter;
    return pending;
  }

  add(pending: PendingCall): void {
    const { counter } = pending.call.id;
    pending.nextOfCounter = this.#byCounter.get(counter);
    this.#byCounter.set(counter, pending);
    this.#size += 1;
  }

  /** False: it was not there. */
  delete(pending: PendingCall): boolean {
    const { counter } = pending.call.id;
    const first = this.#byCounter.get(counter);
    const next = pending.nextOfCounter;
    if (first === pending) {
      if (next === undefined) this.#byCounter.delete(counter);
      else this.#byCounter.set(counter, next);
    } else {
      let before = first;
      while (before !== undefined && before.nextOfCounter !== pending) before = before.nextOfCounter;
      if (before === undefined) return false;
      before.nextOfCounter = next;
    }
    pending.nextOfCounter = undefined;
    this.#size -= 1;
    return true;
  }

  all(): PendingCall[] {
    const all: PendingCall[] = [];
    for (const first of this.#byCounter.values())
      for (let pending: PendingCall | undefined = first; pending !== undefined; pending = pending.nextOfCounter)
        all.push(pending);
    return all;
  }
}
