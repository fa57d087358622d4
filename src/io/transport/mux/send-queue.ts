/**
 * What waits to be sealed and in which order. A small message never waits for more than one chunk of a large one.
 *
 *   push -> | block | block |  \
 *                               frame = one block of small segments, then one chunk
 *   add  -> active: round robin /
 *           waiting: first come, first served
 *
 * Only `activeMax` transfers are in turn at the same time, which bounds what the other side must reassemble.
 */
import { BoundedQueue } from '../../../base/collections/bounded-queue.ts';
import { segmentHeaderBytes, writeSegment } from './segment.ts';

export const chunkBytes = 32 * 1_024;
const smallBytesMax = 64 * 1_024;
const blockBytes = smallBytesMax + chunkBytes + 2 * segmentHeaderBytes + 64;
/** What a sealed frame may hold at most; a receiver refuses more. */
export const framePayloadBytesMax = blockBytes;
const activeMax = 8;
const sourcesMax = 65_536;
const spareMax = 4;
/** Most connections never say much at once: a block begins small, and grows when it has to. */
const firstBlockBytes = 2 * 1_024;

/** Something large. `fill` writes at most one chunk and says where it ended. */
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
    makeRoom(block, block.used + size);
    block.used = writeSegment(block.bytes, block.used, kind, flags, id, argument, body);
    this.#smallBytes += size;
  }

  /** False when too many wait already. A stream that is in the queue must not be added again before it ran empty. */
  add(source: ChunkSource): boolean {
    const taken =
      source.isTransfer && this.#transfersActive >= activeMax ? this.#waiting.push(source) : this.#active.push(source);
    if (!taken) return false;
    if (source.isTransfer && this.#waiting.length === 0) this.#transfersActive += 1;
    this.#largeBytes += source.bytesLeft;
    return true;
  }

  /** More bytes for a source that is in the queue, or (negative) fewer, because it was abandoned. */
  adjust(bytes: number): void {
    this.#largeBytes += bytes;
  }

  /** The plain content of the next frame. It is only valid until the next call. */
  next(): Uint8Array | undefined {
    const block = this.#full.shift() ?? this.#block;
    if (block !== this.#block) this.#recycle(block);
    this.#smallBytes -= block.used;
    if (this.#active.length > 0) makeRoom(block, blockBytes);
    let end = block.used;
    block.used = 0;
    // A source that was given up meanwhile writes nothing; then the next one has its turn.
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

  /** Its content stays readable until somebody writes into it again, which cannot happen before it was sealed. */
  #recycle(block: Block): void {
    if (this.#spare.length < spareMax) this.#spare.push(block);
  }
}

function newBlock(): Block {
  return { bytes: new Uint8Array(firstBlockBytes), used: 0 };
}

function makeRoom(block: Block, bytes: number): void {
  const present = block.bytes.length;
  if (present >= bytes) return;
  const larger = new Uint8Array(Math.min(blockBytes, Math.max(bytes, 4 * present)));
  larger.set(block.bytes.subarray(0, block.used));
  block.bytes = larger;
}
