/**
 * Sealed frames on a byte stream: length, ciphertext, tag. Checks a length before it buffers; copies only frames that
 * are split between chunks.
 */
import { RemusterError } from '../../../base/errors.ts';
import { readU32, writeU32 } from './segment.ts';
import { type Opener, type Sealer, tagBytes } from '../crypto/seal.ts';
import { framePayloadBytesMax } from './send-queue.ts';

const lengthBytes = 4;
const sealedBytesMax = framePayloadBytesMax + tagBytes;
/** A larger frame is cheaper as a vectored write than copied into one buffer. */
const copyBytesMax = 16 * 1_024;

/** The buffers to write, in order: only one for a small frame. */
export function sealFrame(sealer: Sealer, plain: Uint8Array): Buffer[] {
  const [text, tag] = sealer.seal(plain);
  const size = text.length + tagBytes;
  if (text.length > copyBytesMax) {
    const head = Buffer.allocUnsafe(lengthBytes);
    writeU32(head, 0, size);
    return [head, text, tag];
  }
  const frame = Buffer.allocUnsafe(lengthBytes + size);
  writeU32(frame, 0, size);
  frame.set(text, lengthBytes);
  frame.set(tag, lengthBytes + text.length);
  return [frame];
}

export class SealedFrameReader {
  #torn: Uint8Array[] = [];
  #tornBytes = 0;
  #neededBytes = 0;

  /**
   * Calls `visit` for each sealed frame until it returns false. Throws MALFORMED or TOO_LARGE. The chunk may be
   * overwritten after the call.
   */
  read(chunk: Uint8Array, visit: (sealed: Uint8Array) => boolean): void {
    const bytes = this.#join(chunk);
    if (bytes === undefined) return;
    let at = 0;
    this.#neededBytes = lengthBytes;
    for (let isOpen = true; isOpen && bytes.length - at >= lengthBytes;) {
      const size = readU32(bytes, at);
      if (size <= tagBytes) throw new RemusterError('MALFORMED', 'a frame without content');
      if (size > sealedBytesMax) throw new RemusterError('TOO_LARGE', 'a frame exceeds the limit');
      const end = at + lengthBytes + size;
      if (bytes.length < end) {
        this.#neededBytes = lengthBytes + size;
        break;
      }
      isOpen = visit(bytes.subarray(at + lengthBytes, end));
      at = end;
    }
    this.#keep(bytes, at);
  }

  #keep(bytes: Uint8Array, from: number): void {
    this.#tornBytes = bytes.length - from;
    this.#torn = this.#tornBytes === 0 ? [] : [new Uint8Array(bytes.subarray(from))];
  }

  /** Concatenates only when a frame is complete, so that a trickle of small chunks does not cost a copy each. */
  #join(chunk: Uint8Array): Uint8Array | undefined {
    if (this.#tornBytes === 0) return chunk;
    this.#tornBytes += chunk.length;
    const isEnough = this.#tornBytes >= this.#neededBytes;
    this.#torn.push(isEnough ? chunk : new Uint8Array(chunk));
    return isEnough ? Buffer.concat(this.#torn) : undefined;
  }
}

/** Throws UNAUTHENTICATED, which ends the connection. */
export function openFrame(opener: Opener, sealed: Uint8Array): Buffer {
  const plain = opener.open(sealed);
  if (plain === undefined) throw new RemusterError('UNAUTHENTICATED', 'a frame is not authentic');
  return plain;
}
