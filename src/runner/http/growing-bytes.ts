/** A byte buffer that grows by doubling, so that an announced length costs no memory until the bytes arrive. */
const empty = new Uint8Array(0);

export class GrowingBytes {
  #bytes = empty;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The bytes so far; valid until the next call. */
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

  /** Returns all bytes and becomes empty. */
  take(): Uint8Array {
    const taken = this.view;
    this.clear();
    return taken;
  }

  clear(): void {
    this.#bytes = empty;
    this.#length = 0;
  }
}
