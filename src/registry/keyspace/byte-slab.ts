/**
 * Copies of short byte strings, one behind the other in shared memory: an allocation for each costs more than its copy.
 * For strings that are released about in the order in which they were copied. Without it committed writes of the registry
 * are a tenth slower (decision 19).
 */

const slabBytes = 65_536;
/** A longer string gets memory of its own, so that it does not retain a slab. */
const copyBytesMax = 4_096;

export class ByteSlab {
  #bytes = new Uint8Array(slabBytes);
  #used = 0;

  copy(bytes: Uint8Array): Uint8Array {
    if (bytes.length > copyBytesMax) return new Uint8Array(bytes);
    if (this.#used + bytes.length > slabBytes) {
      this.#bytes = new Uint8Array(slabBytes);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += bytes.length;
    this.#bytes.set(bytes, at);
    return this.#bytes.subarray(at, this.#used);
  }
}
