/**
 * Frames on the pipe between a runner and us: u32 length, u8 kind, body. The reader never trusts a length: a frame that
 * is too large is refused before anything is allocated for it. It knows nothing of what a body means.
 */
import { RemusterError } from '../base/errors.ts';

export type Frame = { readonly kind: number; readonly body: Uint8Array };

const headerBytes = 5;
export const frameBodyBytesMax = 16 * 2 ** 20;

/** The body is copied: its owner may write over it at once. */
export function frameOf(kind: number, body: Uint8Array): Uint8Array {
  if (body.length > frameBodyBytesMax) {
    throw new RemusterError('TOO_LARGE', `a message to or from a runner has at most ${frameBodyBytesMax} bytes`);
  }
  const frame = new Uint8Array(headerBytes + body.length);
  new DataView(frame.buffer).setUint32(0, body.length);
  frame[4] = kind;
  frame.set(body, headerBytes);
  return frame;
}

export class FrameReader {
  readonly #header = new Uint8Array(headerBytes);
  #headerFilled = 0;
  #body: Uint8Array | undefined;
  #bodyFilled = 0;

  /** Gives every frame that this chunk completes, each with a body of its own. */
  *read(chunk: Uint8Array): Generator<Frame> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#body === undefined) at = this.#readHeader(chunk, at);
      else at = this.#readBody(chunk, at, this.#body);
      const body = this.#body;
      if (body !== undefined && this.#bodyFilled === body.length) {
        const kind = this.#header[4] as number;
        this.#body = undefined;
        this.#headerFilled = 0;
        yield { kind, body };
      }
    }
  }

  #readHeader(chunk: Uint8Array, at: number): number {
    const end = Math.min(chunk.length, at + headerBytes - this.#headerFilled);
    this.#header.set(chunk.subarray(at, end), this.#headerFilled);
    this.#headerFilled += end - at;
    if (this.#headerFilled === headerBytes) {
      const length = new DataView(this.#header.buffer).getUint32(0);
      if (length > frameBodyBytesMax) throw new RemusterError('TOO_LARGE', `a frame of ${length} bytes was announced`);
      this.#body = new Uint8Array(length);
      this.#bodyFilled = 0;
    }
    return end;
  }

  #readBody(chunk: Uint8Array, at: number, body: Uint8Array): number {
    const end = Math.min(chunk.length, at + body.length - this.#bodyFilled);
    body.set(chunk.subarray(at, end), this.#bodyFilled);
    this.#bodyFilled += end - at;
    return end;
  }
}
