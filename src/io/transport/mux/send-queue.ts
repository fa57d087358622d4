/**
 * The bytes that wait to be sealed, and their order. A small message never waits for more than one chunk of a large
 * one.
 *
 *   push -> | block | block |  \
 *                               frame = one block of small segments, then one chunk
 *   add  -> active: round robin /
 *           waiting: first come, first served
 *
 * At most `activeMax` transfers are active, which bounds the memory that the receiver needs to reassemble them.
 */
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';
import { segmentHeaderBytes, writeSegment } from './segment.ts';

export const chunkBytes = 32 * 1_024;
const smallBytesMax = 64 * 1_024;
const blockBytes = smallBytesMax + chunkBytes + 2 * segmentHeaderBytes + 64;
/** Upper bound of the plain bytes of a frame; a receiver refuses more. */
export const framePayloadBytesMax = blockBytes;
const activeMax = 8;
const sourcesMax = 65_536;
const spareMax = 4;
/** A block starts small and grows, because most connections never send much at once. */
const firstBlockBytes = 2 * 1_024;

/** A large message or stream. `fill` writes at most one chunk and returns its end. */
export type ChunkSource = {
  readonly bytesLeft: number;
  readonly isTransfer: boolean;
  fill(into: Uint8Array, at: number): number;
};

type Block = { bytes: Uint8Array; used: number };

export class SendQueue {
  #block: Block = newBlock();
  #full: Block[] = [];
  readonly #spare: Block[] = [];
  readonly #active = new BoundedQueue<ChunkSource>(sourcesMax);
  readonly #waiting = new BoundedQueue<ChunkSource>(sourcesMax);
  #transfersActive = 0;
  #smallBytes = 0;
  #largeBytes = 0;

  get bytes(): number {
    return this.#smallBytes + this.#largeBytes;
  }

  get empty(): boolean {
    return this.#smallBytes === 0 && this.#active.length === 0 && this.#waiting.length === 0;
  }

  /** A segment of at most one chunk. */
  push(kind: number, flags: number, id: number, argument: number, body: Uint8Array): void {
    const size = segmentHeaderBytes + body.length;
    if (this.#block.used + size > smallBytesMax) this.#startNewBlock();
    const block = this.#block;
    reserve(block, block.used + size);
    block.used = writeSegment(block.bytes, block.used, kind, flags, id, argument, body);
    this.#smallBytes += size;
  }

  /** False if the queue is full. A stream must not be added while it is in the queue. */
  add(source: ChunkSource): boolean {
    const taken =
      source.isTransfer && this.#transfersActive >= activeMax ? this.#waiting.push(source) : this.#active.push(source);
    if (!taken) return false;
    if (source.isTransfer && this.#waiting.length === 0) this.#transfersActive += 1;
    this.#largeBytes += source.bytesLeft;
    return true;
  }

  /** A source in the queue got more bytes, or fewer (negative) because it was abandoned. */
  adjust(bytes: number): void {
    this.#largeBytes += bytes;
  }

  /** The plain bytes of the next frame. Valid until the next call. */
  next(): Uint8Array | undefined {
    const block = this.#full.shift() ?? this.#block;
    if (block !== this.#block) this.#recycle(block);
    this.#smallBytes -= block.used;
    if (this.#active.length > 0) reserve(block, blockBytes);
    let end = block.used;
    block.used = 0;
    // An abandoned source may write nothing: then the next source is used.
    for (let at = end, source = this.#active.shift(); source !== undefined; source = this.#active.shift()) {
      end = this.#fill(source, block.bytes, at);
      if (end > at) break;
    }
    return end === 0 ? undefined : block.bytes.subarray(0, end);
  }

  #fill(source: ChunkSource, into: Uint8Array, at: number): number {
    const before = source.bytesLeft;
    const end = source.fill(into, at);
    this.#largeBytes -= before - source.bytesLeft;
    if (source.bytesLeft > 0) {
      this.#active.push(source);
    } else if (source.isTransfer) {
      const next = this.#waiting.shift();
      if (next === undefined) this.#transfersActive -= 1;
      else this.#active.push(next);
    }
    return end;
  }

  #startNewBlock(): void {
    this.#full.push(this.#block);
    this.#block = this.#spare.pop() ?? newBlock();
  }

  /** The bytes stay valid until the next `push`, which comes after they are sealed. */
  #recycle(block: Block): void {
    if (this.#spare.length < spareMax) this.#spare.push(block);
  }
}

function newBlock(): Block {
  return { bytes: new Uint8Array(firstBlockBytes), used: 0 };
}

function reserve(block: Block, bytes: number): void {
  const current = block.bytes.length;
  if (current >= bytes) return;
  const larger = new Uint8Array(Math.min(blockBytes, Math.max(bytes, 4 * current)));
  larger.set(block.bytes.subarray(0, block.used));
  block.bytes = larger;
}
