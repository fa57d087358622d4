/**
 * Buffers calls while the previous group runs. Packs writes at once into reused memory, so nothing is shared with the
 * caller and little garbage is made. Executes nothing.
 */
import { type StoreBatch, packedBytes, packInto, type StoreRead } from './store-protocol.ts';

/** Where it is in the memory; the next write begins where it ends. */
export type BufferedWrite = { readonly kind: 'write'; readonly start: number; readonly end: number };
export type BufferedStoreCall = StoreRead | BufferedWrite;

const bytesMin = 64 * 2 ** 10;
/** Larger memory is let go with the calls that needed it. While they gather, it has at most twice what they take. */
const keptBytesMax = 4 * 2 ** 20;

export class StoreCallBuffer {
  readonly calls: BufferedStoreCall[] = [];
  #memory = new Uint8Array(0);
  #usedBytes = 0;

  /** The result is how many bytes it takes. */
  write(batch: StoreBatch): number {
    const start = this.#usedBytes;
    this.#makeRoom(packedBytes(batch));
    const end = packInto(this.#memory, start, batch);
    this.#usedBytes = end;
    this.calls.push({ kind: 'write', start, end });
    return end - start;
  }

  read(call: StoreRead): void {
    this.calls.push(call);
  }

  /** Good until `clear`. */
  packed(start: number, end: number): Uint8Array {
    return this.#memory.subarray(start, end);
  }

  clear(): void {
    this.calls.length = 0;
    this.#usedBytes = 0;
    if (this.#memory.length > keptBytesMax) this.#memory = new Uint8Array(0);
  }

  #makeRoom(bytes: number): void {
    const needed = this.#usedBytes + bytes;
    if (needed <= this.#memory.length) return;
    const larger = new Uint8Array(Math.max(bytesMin, needed, 2 * this.#memory.length));
    larger.set(this.#memory.subarray(0, this.#usedBytes));
    this.#memory = larger;
  }
}
