/** The log of one voter in memory, after the last compaction. Indexes are contiguous, terms never decrease. */
import { assert } from '../../base/assert.ts';
import type { LogEntry } from './log-entry.ts';

export type LogPosition = { readonly index: number; readonly term: number };

export class ReplicatedLog {
  /** Position of the last compacted entry; (0, 0) if none was. */
  #base: LogPosition;
  #entries: LogEntry[];

  constructor(base: LogPosition, entries: readonly LogEntry[]) {
    this.#base = base;
    this.#entries = [];
    for (const entry of entries) this.append(entry);
  }

  get base(): LogPosition {
    return this.#base;
  }

  get lastIndex(): number {
    return this.#base.index + this.#entries.length;
  }

  get lastTerm(): number {
    return this.#entries.at(-1)?.term ?? this.#base.term;
  }

  /** Undefined for a compacted or future entry. */
  termAt(index: number): number | undefined {
    if (index === this.#base.index) return this.#base.term;
    return this.at(index)?.term;
  }

  at(index: number): LogEntry | undefined {
    return this.#entries[index - this.#base.index - 1];
  }

  append(entry: LogEntry): void {
    assert(entry.index === this.lastIndex + 1, `entry ${entry.index} does not follow ${this.lastIndex}`);
    assert(entry.term >= this.lastTerm, `the term of entry ${entry.index} decreases`);
    this.#entries.push(entry);
  }

  /** Removes and returns this entry and all after it. */
  truncate(from: number): readonly LogEntry[] {
    assert(from > this.#base.index, `cannot truncate the compacted entry ${from}`);
    return this.#entries.splice(from - this.#base.index - 1);
  }

  /** Drops this entry and all before it. */
  compact(upTo: number): void {
    if (upTo <= this.#base.index) return;
    const term = this.termAt(upTo);
    assert(term !== undefined, `cannot compact up to ${upTo}, beyond the log`);
    this.#entries = this.#entries.slice(upTo - this.#base.index);
    this.#base = { index: upTo, term };
  }

  /** Drops all entries: a snapshot replaces them. */
  reset(base: LogPosition): void {
    this.#base = base;
    this.#entries = [];
  }

  /** Entries from this index on within both limits, but at least one if there is one. */
  slice(from: number, bytesMax: number, countMax: number): readonly LogEntry[] {
    const first = from - this.#base.index - 1;
    assert(first >= 0, `entry ${from} is compacted`);
    let bytes = 0;
    let end = first;
    for (; end < this.#entries.length && end - first < countMax; end++) {
      bytes += (this.#entries[end] as LogEntry).encoded.length;
      if (bytes > bytesMax && end > first) break;
    }
    return this.#entries.slice(first, end);
  }

  /** The last entry up to `index` with a term of at most `term`: the latest position where two logs can match. */
  lastNotAfter(index: number, term: number): LogPosition {
    let low = this.#base.index;
    let high = Math.max(low, Math.min(index, this.lastIndex));
    // Terms never decrease along a log.
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.termAt(middle) as number) <= term) low = middle;
      else high = middle - 1;
    }
    return { index: low, term: this.termAt(low) as number };
  }
}
