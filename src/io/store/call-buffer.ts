/**
 * Buffers store calls while the previous group runs. Packs a write at once into reused memory, so that it shares
 * nothing with the caller and makes little garbage. Executes nothing.
 */
import { type StoreBatch, packedBytes, packInto, type StoreRead } from './store-protocol.ts';

/** Byte range in the memory; consecutive writes are adjacent. */
export type BufferedWrite = { readonly kind: 'write'; readonly start: number; readonly end: number };
export type BufferedStoreCall = StoreRead | BufferedWrite;

const bytesMin = 64 * 2 ** 10;
/** Larger memory is released by `clear`. Until then it has at most twice the size of the buffered writes. */
const reusedBytesMax = 4 * 2 ** 20;

export class StoreCallBuffer {
  readonly calls: BufferedStoreCall[] = [];
  #memory = new Uint8Array(0);
  #usedBytes = 0;

  /** Returns the size of the packed batch. */
  write(batch: StoreBatch): number {
    const start = this.#usedBytes;
    this.#reserve(packedBytes(batch));
    const end = packInto(this.#memory, start, batch);
    this.#usedBytes = end;
    this.calls.push({ kind: 'write', start, end });
    return end - start;
  }

  read(call: StoreRead): void {
    this.calls.push(call);
  }

  /** Valid until `clear`. */
  packed(start: number, end: number): Uint8Array {
    return this.#memory.subarray(start, end);
  }

  clear(): void {
    this.calls.length = 0;
    this.#usedBytes = 0;
    if (this.#memory.length > reusedBytesMax) this.#memory = new Uint8Array(0);
  }

  #reserve(bytes: number): void {
    const needed = this.#usedBytes + bytes;
    if (needed <= this.#memory.length) return;
    const larger = new Uint8Array(Math.max(bytesMin, needed, 2 * this.#memory.length));
    larger.set(this.#memory.subarray(0, this.#usedBytes));
    this.#memory = larger;
  }
}
