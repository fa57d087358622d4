/**
 * Length-prefixed frames on the runner pipe. Refuses an oversized frame before it allocates. Does not know what a body
 * means.
 */
import { RemusterError } from '../../base/errors.ts';

export type PipeFrame = { readonly kind: number; readonly body: Uint8Array };

const headerBytes = 5;
export const pipeFrameBytesMax = 16 * 2 ** 20;
const slabBytes = 32_768;
/** A frame that needs more has memory of its own; a slab with less room is left to those who hold parts of it. */
const sharedBytesMax = 4_096;

/**
 * Frames that go out together, each copied when it is added: its owner may write over it at once. They lie one behind the
 * other in a slab, because memory for each would cost more than everything else; no byte is written a second time.
 */
export class PipeFrameWriter {
  #slab = new Uint8Array(slabBytes);
  #view = new DataView(this.#slab.buffer);
  #start = 0;
  #end = 0;
  #taken: Uint8Array[] = [];
  #count = 0;

  /** Of those that wait. */
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

  /** What was added since the last time, mostly one piece. */
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

  /** Every frame that this chunk completes, in order. A body may lie in the chunk, which nobody writes into again. */
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
