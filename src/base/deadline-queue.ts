/**
 * Keyed deadlines in a timing wheel: set, move and delete cost the same at any size. Owns no clock and no timer: its
 * owner wakes at `nextMs` and takes the keys that are `due`.
 *
 *   slots   | 0 | 1 | 2 | ... | 63 |      each slotMs wide, the first holds the current time
 *
 * Slots only presort; deadlines stay exact. Those beyond the last slot wait in it and are sorted again when it is due.
 */
import { assert } from './assert.ts';

const slotsCount = 64;

export class DeadlineQueue<K> {
  readonly #slotMs: number;
  readonly #slots = Array.from({ length: slotsCount }, () => new Map<K, number>());
  readonly #slotOf = new Map<K, Map<K, number>>();
  /** The slot of the current time, counted from time 0. */
  #currentSlot = 0;

  constructor(slotMs: number) {
    assert(slotMs > 0, 'the slots of a wheel need a positive width');
    this.#slotMs = slotMs;
  }

  get size(): number {
    return this.#slotOf.size;
  }

  /** Sets or moves the one deadline of this key. */
  set(nowMs: number, key: K, atMs: number): void {
    this.delete(key);
    // An empty wheel does not turn, so it catches up with the first key.
    if (this.#slotOf.size === 0) this.#currentSlot = this.#turnAt(nowMs);
    const turn = Math.min(Math.max(this.#turnAt(atMs), this.#currentSlot), this.#currentSlot + slotsCount - 1);
    const slot = this.#slot(turn);
    slot.set(key, atMs);
    this.#slotOf.set(key, slot);
  }

  delete(key: K): boolean {
    this.#slotOf.get(key)?.delete(key);
    return this.#slotOf.delete(key);
  }

  clear(): void {
    for (const slot of this.#slots) slot.clear();
    this.#slotOf.clear();
  }

  /** When to wake: the first deadline, or a little earlier if those beyond the last slot must be sorted again. */
  get nextMs(): number | undefined {
    for (let turn = this.#currentSlot; turn < this.#currentSlot + slotsCount; turn++) {
      const slot = this.#slot(turn);
      if (slot.size === 0) continue;
      let nextMs = (turn + 1) * this.#slotMs;
      for (const atMs of slot.values()) nextMs = Math.min(nextMs, atMs);
      return nextMs;
    }
    return undefined;
  }

  /** Removes and returns the keys whose deadline has passed, the earliest first. */
  due(nowMs: number): readonly K[] {
    const last = Math.max(this.#currentSlot, this.#turnAt(nowMs));
    const found: { readonly key: K; readonly atMs: number }[] = [];
    const early: { readonly key: K; readonly atMs: number }[] = [];
    for (let turn = this.#currentSlot; turn <= Math.min(last, this.#currentSlot + slotsCount - 1); turn++) {
      for (const [key, atMs] of this.#slot(turn)) (atMs <= nowMs ? found : early).push({ key, atMs });
    }
    for (const { key } of found) this.delete(key);
    this.#currentSlot = last;
    for (const { key, atMs } of early) this.set(nowMs, key, atMs);
    return found.toSorted((a, b) => a.atMs - b.atMs).map(({ key }) => key);
  }

  #turnAt(atMs: number): number {
    return Math.floor(atMs / this.#slotMs);
  }

  #slot(turn: number): Map<K, number> {
    const slot = this.#slots[((turn % slotsCount) + slotsCount) % slotsCount];
    assert(slot !== undefined, 'the wheel has a slot for every turn');
    return slot;
  }
}
