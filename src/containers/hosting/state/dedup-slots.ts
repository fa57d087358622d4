/**
 * Allocates row numbers for the results of one session and reuses released ones: a call costs one write and no
 * deletion, and a session has no more rows than results it had at once.
 */
import { dedupRow } from './state-rows.ts';

/** Unused rows that are kept for reuse; further ones are deleted. */
const freeMax = 128;

export class DedupSlots {
  readonly #session: string;
  /** The name of every stored row, built once because it is long. */
  readonly #names = new Map<number, string>();
  readonly #free: number[] = [];
  #next = 0;

  constructor(session: string) {
    this.#session = session;
  }

  /** Returns a row that can be overwritten. The number of a deleted row is never reused. */
  allocate(): number {
    return this.#free.pop() ?? this.#next++;
  }

  /** The row is stored. */
  markStored(slot: number): void {
    this.#next = Math.max(this.#next, slot + 1);
    this.nameOf(slot);
  }

  nameOf(slot: number): string {
    const known = this.#names.get(slot);
    if (known !== undefined) return known;
    const name = dedupRow(this.#session, slot);
    this.#names.set(slot, name);
    return name;
  }

  /** The row is no longer needed. Returns its name if it must be deleted. */
  release(slot: number): string | undefined {
    if (this.#free.length < freeMax) {
      this.#free.push(slot);
      return undefined;
    }
    const name = this.nameOf(slot);
    this.#names.delete(slot);
    return name;
  }

  /** The names of all stored rows, unused ones included. */
  all(): Iterable<string> {
    return this.#names.values();
  }
}
