/** A growable byte buffer that doubles, so an announced length costs nothing until the bytes arrive. */
const nothing = new Uint8Array(0);

export class GrowingBytes {
  #bytes = nothing;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** What came so far; valid until the next call. */
  get view(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  append(bytes: Uint8Array, from: number, to: number): void {
    const length = this.#length + to - from;
    if (length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#bytes.length, 1_024));
      grown.set(this.view);
      this.#bytes = grown;
    }
    this.#bytes.set(bytes.subarray(from, to), this.#length);
    this.#length = length;
  }

  /** Gives everything away and begins anew. */
  take(): Uint8Array {
    const taken = this.view;
    this.clear();
    return taken;
  }

  clear(): void {
    this.#bytes = nothing;
    this.#length = 0;
  }
}
