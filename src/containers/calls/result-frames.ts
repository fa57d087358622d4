/**
 * Frames of a result stream, with credit-based flow control: the reader grants credit, the writer sends an item only
 * while it has credit.
 *
 *   frame = kind (1) | length (4, big endian) | bytes
 *   reader: args once, then any number of credit frames (4 bytes, big endian: additional credit)
 *   writer: any number of items, then end, or refused with a callError message
 */
import { RemusterError } from '../../base/errors.ts';
import type { ByteStream } from '../../base/ports.ts';

export const resultFrameKinds = { args: 1, credit: 2, item: 3, end: 4, refused: 5 } as const;
export type ResultFrameKind = (typeof resultFrameKinds)[keyof typeof resultFrameKinds];

/** Credit that an item consumes; an empty one consumes some too. */
export function itemCost({ length }: Uint8Array): number {
  return length + itemOverheadBytes;
}

const itemOverheadBytes = 64;
const headerBytes = 5;
/** Less than any transport takes at once. */
const chunkBytes = 16_384;

/**
 * Sends frames in chunks as fast as the stream takes them. Unbounded: callers wait for `isIdle` before large frames.
 */
export class ResultFrameSender {
  readonly #stream: ByteStream;
  readonly #chunks: Uint8Array[] = [];
  readonly #onIdle: () => void;
  #isEnding = false;

  /** `idle` is called when the stream has taken everything. */
  constructor(stream: ByteStream, idle: () => void) {
    this.#stream = stream;
    this.#onIdle = idle;
  }

  get isIdle(): boolean {
    return this.#chunks.length === 0;
  }

  send(kind: ResultFrameKind, bytes: Uint8Array): void {
    const frame = new Uint8Array(headerBytes + bytes.length);
    frame[0] = kind;
    new DataView(frame.buffer).setUint32(1, bytes.length);
    frame.set(bytes, headerBytes);
    for (let at = 0; at < frame.length; at += chunkBytes) this.#chunks.push(frame.subarray(at, at + chunkBytes));
    this.flush();
  }

  /** Ends the stream after the last frame. */
  end(): void {
    this.#isEnding = true;
    this.flush();
  }

  /** Also called when the stream is writable again. */
  flush(): void {
    const wasIdle = this.isIdle;
    let sent = 0;
    while (sent < this.#chunks.length && this.#stream.write(this.#chunks[sent] as Uint8Array)) sent += 1;
    this.#chunks.splice(0, sent);
    if (!this.isIdle) return;
    if (this.#isEnding) this.#stream.end();
    else if (!wasIdle) this.#onIdle();
  }
}

/** Reassembles frames from chunks. Holds at most one frame. */
export class ResultFrameReader {
  readonly #bytesMax: number;
  readonly #onFrame: (kind: number, bytes: Uint8Array) => void;
  readonly #header = new Uint8Array(headerBytes);
  #headerAt = 0;
  #chunks: Uint8Array[] = [];
  #remainingBytes = 0;

  constructor(bytesMax: number, frame: (kind: number, bytes: Uint8Array) => void) {
    this.#bytesMax = bytesMax;
    this.#onFrame = frame;
  }

  /** Throws TOO_LARGE when a frame announces more bytes than allowed. */
  take(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#headerAt < headerBytes ? this.#takeHeader(chunk, at) : this.#takeBody(chunk, at);
      if (this.#headerAt === headerBytes && this.#remainingBytes === 0) this.#onFrameComplete();
    }
  }

  #takeHeader(chunk: Uint8Array, at: number): number {
    const part = chunk.subarray(at, at + headerBytes - this.#headerAt);
    this.#header.set(part, this.#headerAt);
    this.#headerAt += part.length;
    if (this.#headerAt === headerBytes) {
      this.#remainingBytes = new DataView(this.#header.buffer).getUint32(1);
      if (this.#remainingBytes > this.#bytesMax)
        throw new RemusterError('TOO_LARGE', `a frame of a result stream has more than ${this.#bytesMax} bytes`);
    }
    return at + part.length;
  }

  #takeBody(chunk: Uint8Array, at: number): number {
    const part = chunk.slice(at, at + this.#remainingBytes);
    this.#chunks.push(part);
    this.#remainingBytes -= part.length;
    return at + part.length;
  }

  #onFrameComplete(): void {
    const [only] = this.#chunks;
    const bytes = only !== undefined && this.#chunks.length === 1 ? only : joined(this.#chunks);
    this.#headerAt = 0;
    this.#chunks = [];
    this.#onFrame(this.#header[0] as number, bytes);
  }
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

export function creditFrame(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

export function creditOf(bytes: Uint8Array): number {
  if (bytes.length !== 4) throw new RemusterError('MALFORMED', `a credit frame has 4 bytes, not ${bytes.length}`);
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}
