/**
 * A snapshot: last index and term, configuration, and the state in chunks of one size with a checksum, so that a large
 * state is never one contiguous buffer. Does not interpret the bytes.
 */
import { crc32 } from '../../base/crc.ts';
import type { GroupMember } from './state-machine.ts';

export type ChunkedBytes = {
  /** All of one size; only the last one may be smaller. */
  readonly chunks: readonly Uint8Array[];
  readonly length: number;
  readonly checksum: number;
};

const noChunks: ChunkedBytes = { chunks: [], length: 0, checksum: 0 };

/** Collects parts of any size and keeps them by reference: the caller must not change them afterwards. */
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

  /** The complete chunks. */
  get chunks(): readonly Uint8Array[] {
    return this.#chunks;
  }

  add(bytes: Uint8Array): void {
    this.#length += bytes.length;
    this.#checksum = crc32(bytes, this.#checksum);
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + this.#chunkBytes - this.#openBytes);
      this.#open.push(part);
      this.#openBytes += part.length;
      at += part.length;
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

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** The bytes from `offset` to the end of their chunk; empty at the end of the state. */
export function chunkAt({ chunks }: ChunkedBytes, offset: number): Uint8Array {
  const chunkBytes = chunks[0]?.length ?? 1;
  return chunks[Math.floor(offset / chunkBytes)]?.subarray(offset % chunkBytes) ?? new Uint8Array(0);
}

export type Snapshot = {
  /** Increases with each snapshot of this node, and is part of the keys of its parts. */
  readonly number: number;
  /** Index and term of the last entry in the snapshot. */
  readonly index: number;
  readonly term: number;
  readonly members: readonly GroupMember[];
  readonly state: ChunkedBytes;
};

export const noSnapshot: Snapshot = { number: 0, index: 0, term: 0, members: [], state: noChunks };
