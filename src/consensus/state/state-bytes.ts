/**
 * The bytes of a state, as pieces of one size: so they are stored and sent, and a large state never has to lie in
 * memory as a whole run of bytes. What the bytes mean is the replica's business.
 */
import { crc32 } from '../../base/checksum.ts';

export type ChunkedBytes = {
  /** All of the same size, except the last one, which may be smaller. */
  readonly chunks: readonly Uint8Array[];
  readonly length: number;
  readonly checksum: number;
};

export const noChunks: ChunkedBytes = { chunks: [], length: 0, checksum: 0 };

/** Takes bytes that are cut anywhere, and keeps them: nobody may change them afterwards. */
export class ChunkedBytesBuilder {
  readonly #chunkBytes: number;
  readonly #chunks: Uint8Array[] = [];
  #open: Uint8Array[] = [];
  #openBytes = 0;
  #length = 0;
  #checksum = 0;

  constructor(chunkBytes: number) {
    this.#chunkBytes = chunkBytes;
  }

  get length(): number {
    return this.#length;
  }

  get checksum(): number {
    return this.#checksum;
  }

  /** Those that are complete. */
  get chunks(): readonly Uint8Array[] {
    return this.#chunks;
  }

  add(bytes: Uint8Array): void {
    this.#length += bytes.length;
    this.#checksum = crc32(bytes, this.#checksum);
    for (let at = 0; at < bytes.length;) {
      const piece = bytes.subarray(at, at + this.#chunkBytes - this.#openBytes);
      this.#open.push(piece);
      this.#openBytes += piece.length;
      at += piece.length;
      if (this.#openBytes === this.#chunkBytes) this.#close();
    }
  }

  finish(): ChunkedBytes {
    if (this.#openBytes > 0) this.#close();
    return { chunks: this.#chunks, length: this.#length, checksum: this.#checksum };
  }

  #close(): void {
    const [only] = this.#open;
    this.#chunks.push(this.#open.length === 1 && only !== undefined ? only : joined(this.#open, this.#openBytes));
    this.#open = [];
    this.#openBytes = 0;
  }
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const out = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

/** From there to the end of its piece; nothing behind the end. */
export function chunkAt({ chunks }: ChunkedBytes, offset: number): Uint8Array {
  const chunkBytes = chunks[0]?.length ?? 1;
  return chunks[Math.floor(offset / chunkBytes)]?.subarray(offset % chunkBytes) ?? new Uint8Array(0);
}
