/**
 * Copies of small pieces of bytes, one behind the other in common memory: a fresh buffer for each costs more than the
 * copy does, and much more to throw away. For pieces that are given up about in the order in which they were made.
 */

const slabBytes = 65_536;
const pieceBytesMax = 4_096;

export class ByteSlab {
  #bytes = new Uint8Array(slabBytes);
  #used = 0;

  copy(piece: Uint8Array): Uint8Array {
    if (piece.length > pieceBytesMax) return new Uint8Array(piece);
    if (this.#used + piece.length > slabBytes) {
      this.#bytes = new Uint8Array(slabBytes);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += piece.length;
    this.#bytes.set(piece, at);
    return this.#bytes.subarray(at, this.#used);
  }
}
