/**
 * Frames of a result stream, with credit-based flow control: the reader grants credit, the writer sends an item only
 * within it.
 *
 *   frame = kind (1) | length (4, big endian) | bytes
 *   reader: args once, then room (4 bytes, big endian: for so much more) again and again
 *   writer: item again and again, then end, or refused with a callError message
 */
import { RemusterError } from '../../base/errors.ts';
import type { ByteStream } from '../../base/ports.ts';

export const resultFrameKinds = { args: 1, credit: 2, item: 3, end: 4, refused: 5 } as const;
export type ResultFrameKind = (typeof resultFrameKinds)[keyof typeof resultFrameKinds];

/** What an item takes of the room: also an empty one takes some. */
export function itemCost({ length }: Uint8Array): number {
  return length + itemOverheadBytes;
}

const itemOverheadBytes = 64;
const headerBytes = 5;
/** Below what any transport takes at once. */
const pieceBytes = 16_384;

/** Sends frames in pieces, as fast as the stream takes them. Whoever sends waits for `isIdle` before large ones. */
export class ResultFrameSender {
  readonly #stream: ByteStream;
  readonly #pieces: Uint8Array[] = [];
  readonly #idle: () => void;
  #isEnding = false;

  /** `idle` is called when everything has been taken by the stream. */
  constructor(stream: ByteStream, idle: () => void) {
    this.#stream = stream;
    this.#idle = idle;
  }

  get isIdle(): boolean {
    return this.#pieces.length === 0;
  }

  send(kind: ResultFrameKind, bytes: Uint8Array): void {
    const frame = new Uint8Array(headerBytes + bytes.length);
    frame[0] = kind;
    new DataView(frame.buffer).setUint32(1, bytes.length);
    frame.set(bytes, headerBytes);
    for (let at = 0; at < frame.length; at += pieceBytes) this.#pieces.push(frame.subarray(at, at + pieceBytes));
    this.pump();
  }

  /** Nothing follows. */
  end(): void {
    this.#isEnding = true;
    this.pump();
  }

  /** Also when the stream says that it is writable again. */
  pump(): void {
    const wasIdle = this.isIdle;
    let sent = 0;
    while (sent < this.#pieces.length && this.#stream.write(this.#pieces[sent] as Uint8Array)) sent += 1;
    this.#pieces.splice(0, sent);
    if (!this.isIdle) return;
    if (this.#isEnding) this.#stream.end();
    else if (!wasIdle) this.#idle();
  }
}

/** Puts frames together again. Holds at most one frame. */
export class ResultFrameReader {
  readonly #bytesMax: number;
  readonly #frame: (kind: number, bytes: Uint8Array) => void;
  readonly #header = new Uint8Array(headerBytes);
  #headerAt = 0;
  #chunks: Uint8Array[] = [];
  #missing = 0;

  constructor(bytesMax: number, frame: (kind: number, bytes: Uint8Array) => void) {
    this.#bytesMax = bytesMax;
    this.#frame = frame;
  }

  /** Throws TOO_LARGE when a frame announces more than is allowed. */
  take(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#headerAt < headerBytes ? this.#takeHeader(chunk, at) : this.#takeBody(chunk, at);
      if (this.#headerAt === headerBytes && this.#missing === 0) this.#complete();
    }
  }

  #takeHeader(chunk: Uint8Array, at: number): number {
    const part = chunk.subarray(at, at + headerBytes - this.#headerAt);
    this.#header.set(part, this.#headerAt);
    this.#headerAt += part.length;
    if (this.#headerAt === headerBytes) {
      this.#missing = new DataView(this.#header.buffer).getUint32(1);
      if (this.#missing > this.#bytesMax) throw new RemusterError('TOO_LARGE', 'a frame of a flow is too large');
    }
    return at + part.length;
  }

  #takeBody(chunk: Uint8Array, at: number): number {
    const part = chunk.slice(at, at + this.#missing);
    this.#chunks.push(part);
    this.#missing -= part.length;
    return at + part.length;
  }

  #complete(): void {
    const [only] = this.#chunks;
    const bytes = only !== undefined && this.#chunks.length === 1 ? only : joined(this.#chunks);
    this.#headerAt = 0;
    this.#chunks = [];
    this.#frame(this.#header[0] as number, bytes);
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
  if (bytes.length !== 4) throw new RemusterError('MALFORMED', 'a number in a flow has four bytes');
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}
