/**
 * The last value per key that one call has written, in order of first write. Up to 8 keys it is a plain list, because
 * most calls write few; beyond that it is indexed.
 */

/** `value` null: deleted. */
export type StateChange = { readonly key: string; value: Uint8Array | null };

/** Longer lists get an index. */
const listMax = 8;

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

  /** Only for a key that `find` does not find. */
  add(key: string, value: Uint8Array | null): void {
    const change = { key, value };
    if (this.#all === undefined) this.#all = [change];
    else if (this.#all.push(change) > listMax) this.#index(change);
  }

  #index(newest: StateChange): void {
    if (this.#byKey !== undefined) this.#byKey.set(newest.key, newest);
    else this.#byKey = new Map(this.all.map((change) => [change.key, change]));
  }
}
