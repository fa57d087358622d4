/**
 * Allocates row numbers for the results of one session and reuses freed ones, so a call costs one row and no deletion,
 * and a session has no more rows than it had pending results at once.
 */
import { dedupRow } from './state-rows.ts';

/** Beyond these, rows that are not used go. */
const freeMax = 128;

export class DedupSlots {
  readonly #session: string;
  /** Of every row that is on the disk. They are long, and are made once. */
  readonly #names = new Map<number, string>();
  readonly #free: number[] = [];
  #next = 0;

  constructor(session: string) {
    this.#session = session;
  }

  /** Of a row that can be written over. The number of one that was deleted never comes again. */
  allocate(): number {
    return this.#free.pop() ?? this.#next++;
  }

  /** It is on the disk. */
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

  /** What it says is over. The result is the name of a row that is to be deleted. */
  release(slot: number): string | undefined {
    if (this.#free.length < freeMax) {
      this.#free.push(slot);
      return undefined;
    }
    const name = this.nameOf(slot);
    this.#names.delete(slot);
    return name;
  }

  /** Of all rows, those too that are not used. */
  all(): Iterable<string> {
    return this.#names.values();
  }
}
