/**
 * Index of one log file: each key to its last value's offset. Keys are strings with one character per byte, so they
 * compare like the bytes. Holds keys and offsets in memory, never values.
 */
import { RemusterError } from '../../base/errors.ts';
import type { StoreLogReader } from './store-log-reader.ts';
import { storeLogRecordBytes } from './store-log-record.ts';
import { keyBytes, valueAt, visitBatch } from './store-protocol.ts';

/** `value` null: it is to go. */
export type StoreLogRow = { readonly key: Uint8Array; readonly value: Uint8Array | null };
/** A row that can be read. */
export type StoreLogRowRef = { readonly rows: StoreLogIndex; readonly offset: number };

/** Of a row: where its record begins times this, plus where in the payload it does. The largest batch has so many bytes. */
const placesPerRecord = 2 ** 26;
/** Instead of a place: the row is to go. */
export const tombstone = -1;

export class StoreLogIndex {
  readonly #reader: StoreLogReader;
  /** Of the last group that was acknowledged, and of the last one that is in `#places`. */
  #number: number;
  #indexedNumber: number;
  /** The same in bytes of the file. */
  #bytes = 0;
  #indexedBytes = 0;
  /** Up to here the database has them. */
  #settledBytes = 0;
  /** Numbers, because there are many, and most are written again before anybody reads them. */
  readonly #places = new Map<string, number>();

  /** Of a file that is written from its beginning, after the group of that number. */
  constructor(reader: StoreLogReader, number: number) {
    this.#reader = reader;
    this.#number = number;
    this.#indexedNumber = number;
  }

  get number(): number {
    return this.#number;
  }

  get isEmpty(): boolean {
    return this.#bytes === this.#settledBytes;
  }

  /** The file was acknowledged up to there, which is the end of the group of that number. */
  extendTo(number: number, bytes: number): void {
    this.#number = number;
    this.#bytes = bytes;
  }

  /** Finds out what the last groups have; if nobody wants to know it before, when there is time. */
  index(): void {
    while (this.#indexedBytes < this.#bytes) {
      const at = this.#indexedBytes;
      const { number, payload } = this.#reader.group(at, this.#bytes);
      // A record of an earlier use of the file: what was written over it never got there.
      if (number !== this.#indexedNumber + 1)
        throw new RemusterError('STORE_CORRUPT', 'the log of the store has a gap');
      const base = at * placesPerRecord;
      visitBatch(payload, (key, rowAt, isGone) => this.#places.set(key, isGone ? tombstone : base + rowAt));
      this.#indexedBytes = at + storeLogRecordBytes(payload.length);
      this.#indexedNumber = number;
    }
  }

  /** Keys and places, as they stand in the file: so they are read with the fewest calls of the system. */
  inOrder(): readonly (readonly [string, number])[] {
    this.index();
    return [...this.#places].toSorted(([, a], [, b]) => a - b);
  }

  /** Adds those from one key up to another; what stands there already is older. */
  collect(from: Uint8Array, to: Uint8Array, found: Map<string, StoreLogRowRef>): void {
    const [first, end] = [textOf(from), textOf(to)];
    this.index();
    for (const [key, offset] of this.#places) if (key >= first && key < end) found.set(key, { rows: this, offset });
  }

  /** Each is overwritten by the next. */
  *read(places: Iterable<readonly [string, number]>): Generator<StoreLogRow> {
    for (const [key, place] of places)
      yield { key: keyBytes(key), value: place === tombstone ? null : this.value(place) };
  }

  /** Overwritten by the next. */
  value(place: number): Uint8Array | null {
    const { payload } = this.#reader.group(Math.floor(place / placesPerRecord), this.#bytes);
    return valueAt(payload, place % placesPerRecord);
  }

  /** The database has everything, so the file may be written over. */
  reset(): void {
    this.#places.clear();
    this.#settledBytes = this.#bytes;
    this.#reader.forget();
  }
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}
