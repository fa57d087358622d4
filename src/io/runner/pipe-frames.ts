/**
 * Length-prefixed frames on the pipe of a runner. Refuses an oversized frame before it allocates memory for it. Does
 * not interpret bodies.
 */
import { RemusterError } from '../../base/errors.ts';

export type PipeFrame = { readonly kind: number; readonly body: Uint8Array };

const headerBytes = 5;
export const pipeFrameBytesMax = 16 * 2 ** 20;
const slabBytes = 32_768;
/** A larger frame gets memory of its own. */
const sharedBytesMax = 4_096;

/**
 * Collects frames for one write. Each frame is copied when it is added, so its owner may reuse the memory at once.
 * Small frames are adjacent in a slab, because an allocation for each would be the largest cost. Never rewrites a byte
 * of a slab, since the stream may still hold it.
 */
export class PipeFrameWriter {
  #slab = new Uint8Array(slabBytes);
  #view = new DataView(this.#slab.buffer);
  #start = 0;
  #end = 0;
  #taken: Uint8Array[] = [];
  #count = 0;

  /** Number of frames since the last `take`. */
  get count(): number {
    return this.#count;
  }

  add(kind: number, body: Uint8Array): void {
    if (body.length > pipeFrameBytesMax) {
      throw new RemusterError('TOO_LARGE', `a message to or from a runner has at most ${pipeFrameBytesMax} bytes`);
    }
    this.#count += 1;
    const bytes = headerBytes + body.length;
    if (bytes > sharedBytesMax) {
      this.#cut();
      const own = new Uint8Array(bytes);
      write(own, new DataView(own.buffer), 0, kind, body);
      this.#taken.push(own);
      return;
    }
    if (this.#end + bytes > slabBytes) {
      this.#cut();
      this.#slab = new Uint8Array(slabBytes);
      this.#view = new DataView(this.#slab.buffer);
      this.#start = this.#end = 0;
    }
    write(this.#slab, this.#view, this.#end, kind, body);
    this.#end += bytes;
  }

  /** The bytes of all frames since the last `take`, usually in one part. */
  take(): readonly Uint8Array[] {
    this.#cut();
    const taken = this.#taken;
    this.#taken = [];
    this.#count = 0;
    return taken;
  }

  #cut(): void {
    if (this.#end === this.#start) return;
    this.#taken.push(this.#slab.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }
}

function write(to: Uint8Array, view: DataView, at: number, kind: number, body: Uint8Array): void {
  view.setUint32(at, body.length);
  to[at + 4] = kind;
  to.set(body, at + headerBytes);
}

export class PipeFrameReader {
  readonly #header = new Uint8Array(headerBytes);
  #headerFilled = 0;
  #body: Uint8Array | undefined;
  #bodyFilled = 0;

  /** Every frame that this chunk completes, in order. A body may share the memory of the chunk. */
  read(chunk: Uint8Array): readonly PipeFrame[] {
    const frames: PipeFrame[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (this.#body === undefined) at = this.#readHeader(chunk, at);
      else at = this.#readBody(chunk, at, this.#body);
      const body = this.#body;
      if (body !== undefined && this.#bodyFilled === body.length) {
        this.#body = undefined;
        this.#headerFilled = 0;
        frames.push({ kind: this.#header[4] as number, body });
      }
    }
    return frames;
  }

  #readHeader(chunk: Uint8Array, at: number): number {
    const end = Math.min(chunk.length, at + headerBytes - this.#headerFilled);
    for (let from = at; from < end; from++) this.#header[this.#headerFilled++] = chunk[from] as number;
    if (this.#headerFilled < headerBytes) return end;
    const [a = 0, b = 0, c = 0, d = 0] = this.#header;
    const length = a * 2 ** 24 + b * 2 ** 16 + c * 2 ** 8 + d;
    if (length > pipeFrameBytesMax) throw new RemusterError('TOO_LARGE', `a frame of ${length} bytes was announced`);
    const isWhole = end + length <= chunk.length;
    this.#body = isWhole ? chunk.subarray(end, end + length) : new Uint8Array(length);
    this.#bodyFilled = isWhole ? length : 0;
    return isWhole ? end + length : end;
  }

  #readBody(chunk: Uint8Array, at: number, body: Uint8Array): number {
    const end = Math.min(chunk.length, at + body.length - this.#bodyFilled);
    body.set(chunk.subarray(at, end), this.#bodyFilled);
    this.#bodyFilled += end - at;
    return end;
  }
}
