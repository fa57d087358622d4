/**
 * Index of one log file: the position of the last row of each key. Keys are strings with one character per byte, so
 * that they compare like the bytes. Holds keys and positions in memory, never values.
 */
import { RemusterError } from '../../base/errors.ts';
import type { StoreLogReader } from './store-log-reader.ts';
import { storeLogRecordBytes } from './store-log-record.ts';
import { keyBytes, valueAt, visitBatch } from './store-protocol.ts';

/** A null value removes the key. */
export type StoreLogRow = { readonly key: Uint8Array; readonly value: Uint8Array | null };
/** Where a row can be read, or a tombstone. */
export type StoreLogRowRef = { readonly rows: StoreLogIndex; readonly position: number };

/** The position of a row is offset of its record x this + offset in the payload, which is at most a batch of 64 MiB. */
const positionsPerByte = 2 ** 26;
/** Position of a row that removes its key. */
export const tombstone = -1;

export class StoreLogIndex {
  readonly #reader: StoreLogReader;
  /** Number of the last acknowledged group, and of the last group in `#positions`: `#indexedNumber` <= `#number`. */
  #number: number;
  #indexedNumber: number;
  /** The same as file offsets. */
  #bytes = 0;
  #indexedBytes = 0;
  /** The database has all groups before this offset. */
  #checkpointedBytes = 0;
  /** Plain numbers, because there are many and most keys are overwritten before a read. */
  readonly #positions = new Map<string, number>();

  /** For a file that is written from its beginning, starting after group `number`. */
  constructor(reader: StoreLogReader, number: number) {
    this.#reader = reader;
    this.#number = number;
    this.#indexedNumber = number;
  }

  get number(): number {
    return this.#number;
  }

  get isEmpty(): boolean {
    return this.#bytes === this.#checkpointedBytes;
  }

  /** The file is acknowledged up to the offset `bytes`, the end of group `number`. */
  extendTo(number: number, bytes: number): void {
    this.#number = number;
    this.#bytes = bytes;
  }

  /** Indexes the groups that were acknowledged since the last update: when the thread is idle, or before a read. */
  update(): void {
    while (this.#indexedBytes < this.#bytes) {
      const at = this.#indexedBytes;
      const { number, payload } = this.#reader.group(at, this.#bytes);
      // A record of an earlier use of the file: the write that should have replaced it was lost.
      if (number !== this.#indexedNumber + 1)
        throw new RemusterError('STORE_CORRUPT', 'the log of the store has a gap');
      const base = at * positionsPerByte;
      visitBatch(payload, (key, rowAt, isTombstone) => {
        this.#positions.set(key, isTombstone ? tombstone : base + rowAt);
      });
      this.#indexedBytes = at + storeLogRecordBytes(payload.length);
      this.#indexedNumber = number;
    }
  }

  /** Keys and positions in file order, which needs the fewest system calls to read. */
  inOrder(): readonly (readonly [string, number])[] {
    this.update();
    return [...this.#positions].toSorted(([, a], [, b]) => a - b);
  }

  /** Adds the rows of a key range to `found`, replacing older ones. */
  collect(from: Uint8Array, to: Uint8Array, found: Map<string, StoreLogRowRef>): void {
    const [first, end] = [textOf(from), textOf(to)];
    this.update();
    for (const [key, position] of this.#positions) {
      if (key >= first && key < end) found.set(key, { rows: this, position });
    }
  }

  /** Each value is valid until the next row is read. */
  *read(rows: Iterable<readonly [string, number]>): Generator<StoreLogRow> {
    for (const [key, position] of rows)
      yield { key: keyBytes(key), value: position === tombstone ? null : this.value(position) };
  }

  /** Valid until the next row is read. */
  value(position: number): Uint8Array | null {
    const { payload } = this.#reader.group(Math.floor(position / positionsPerByte), this.#bytes);
    return valueAt(payload, position % positionsPerByte);
  }

  /** The database has all rows, so the file may be reused. */
  reset(): void {
    this.#positions.clear();
    this.#checkpointedBytes = this.#bytes;
    this.#reader.forget();
  }
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1');
}
