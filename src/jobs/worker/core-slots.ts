/** Owns which unit holds each core. A core is released once, by its holder; anything else is an assertion failure. */
import { assert } from '../../base/assert.ts';

export class CoreSlots<Holder> {
  readonly total: number;
  readonly #holders: (Holder | undefined)[];
  /** Free cores; the most recently used is acquired first, because its caches are warm. */
  readonly #free: number[];

  constructor(total: number) {
    assert(Number.isInteger(total) && total > 0, 'a worker has at least one core');
    this.total = total;
    this.#holders = Array.from({ length: total }, () => undefined);
    this.#free = this.#holders.map((_, core) => total - 1 - core);
  }

  get free(): number {
    return this.#free.length;
  }

  /** Undefined if every core is held. */
  acquire(holder: Holder): number | undefined {
    const core = this.#free.pop();
    if (core === undefined) return undefined;
    assert(this.#holders[core] === undefined, `core ${core} was free and held at once`);
    this.#holders[core] = holder;
    return core;
  }

  release(core: number, holder: Holder): void {
    assert(this.#holders[core] === holder, `core ${core} is held by another one`);
    this.#holders[core] = undefined;
    this.#free.push(core);
  }

  holderOf(core: number): Holder | undefined {
    return this.#holders[core];
  }
}
