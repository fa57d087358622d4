/**
 * The last value per key that one call wrote, in order of first write. A list up to 8 keys, as most calls write few;
 * then indexed.
 */

/** `value` null: deleted. */
export type StateChange = { readonly key: string; value: Uint8Array | null };

/** Up to so many are looked through. */
const plainMax = 8;

const none: readonly StateChange[] = [];

export class StateChangeList {
  #all: StateChange[] | undefined;
  #byKey: Map<string, StateChange> | undefined;

  get size(): number {
    return this.#all === undefined ? 0 : this.#all.length;
  }

  get all(): readonly StateChange[] {
    return this.#all ?? none;
  }

  find(key: string): StateChange | undefined {
    if (this.#byKey !== undefined) return this.#byKey.get(key);
    const all = this.#all ?? none;
    for (let i = 0; i < all.length; i++) {
      const change = all[i] as StateChange;
      if (change.key === key) return change;
    }
    return undefined;
  }

  /** Of a key that `find` does not find. */
  add(key: string, value: Uint8Array | null): void {
    const change = { key, value };
    if (this.#all === undefined) this.#all = [change];
    else if (this.#all.push(change) > plainMax) this.#index(change);
  }

  #index(newest: StateChange): void {
    if (this.#byKey !== undefined) this.#byKey.set(newest.key, newest);
    else this.#byKey = new Map(this.all.map((change) => [change.key, change]));
  }
}
