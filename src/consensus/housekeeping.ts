/**
 * Writes that nobody waits for: the parts of a snapshot, and what may be deleted after it. They go to the disk a little
 * at a time, each when the writes before it are durable, so that they never hold up the log.
 */
import type { StoreWrite } from '../base/ports.ts';
import type { GroupState } from './group-state.ts';

const deletesAtOnce = 512;

export class Housekeeping {
  readonly #state: GroupState;
  #steps: (() => readonly StoreWrite[])[] = [];

  constructor(state: GroupState) {
    this.#state = state;
  }

  get isBusy(): boolean {
    return this.#steps.length > 0;
  }

  /** Each step is asked for its writes when its turn has come. */
  add(...steps: readonly (() => readonly StoreWrite[])[]): void {
    this.#steps.push(...steps);
    if (!this.#state.durability.waiting) this.next();
  }

  delete(keys: readonly string[]): void {
    const slices = [];
    for (let at = 0; at < keys.length; at += deletesAtOnce) {
      const slice = keys.slice(at, at + deletesAtOnce).map((key) => ({ key, value: null }));
      slices.push(() => slice);
    }
    this.add(...slices);
  }

  /** A write is durable. */
  next(): void {
    for (let step = this.#steps.shift(); step !== undefined; step = this.#steps.shift()) {
      const writes = step();
      if (writes.length === 0) continue;
      this.#state.persist(writes);
      return;
    }
  }
}
