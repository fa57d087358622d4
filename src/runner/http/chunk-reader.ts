/**
 * Decodes a chunked body (RFC 9112, 7.1) from arbitrary pieces. Framing and content are bounded, so every body ends.
 * Ignores extensions and trailers.
 */
import { RemusterError } from '../../base/errors.ts';
import type { GrowingBytes } from './growing-bytes.ts';
import { malformedResponse } from './response-head.ts';

const lf = 10;
const cr = 13;
const semicolon = 59;

/** Where in the frame the next byte stands. */
const state = { size: 0, extension: 1, data: 2, dataEnd: 3, trailer: 4, over: 5 } as const;

/** Digits of a size; more is more than anybody takes. */
const sizeDigitsMax = 8;

export class ChunkReader {
  readonly #frameBytesMax: number;
  readonly #bodyBytesMax: number;
  #place: number = state.size;
  #left = 0;
  #digits = 0;
  /** Of the line that is being read: trailers end with an empty one. */
  #lineBytes = 0;
  #frameBytes = 0;
  #sawReturn = false;

  constructor(frameBytesMax: number, bodyBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
    this.#bodyBytesMax = bodyBytesMax;
  }

  begin(): void {
    this.#place = state.size;
    this.#left = 0;
    this.#digits = 0;
    this.#frameBytes = 0;
    this.#sawReturn = false;
  }

  get isOver(): boolean {
    return this.#place === state.over;
  }

  /** Adds the content to `body`. The position after the last byte that belongs to the answer. */
  read(bytes: Uint8Array, from: number, to: number, body: GrowingBytes): number {
    let at = from;
    while (at < to && this.#place !== state.over) {
      if (this.#place !== state.data) {
        this.#framingByte(bytes[at] as number, body.length);
        at += 1;
        continue;
      }
      const end = Math.min(to, at + this.#left);
      body.append(bytes, at, end);
      this.#left -= end - at;
      at = end;
      if (this.#left === 0) this.#place = state.dataEnd;
    }
    return at;
  }

  #framingByte(code: number, bodyBytes: number): void {
    this.#frameBytes += 1;
    if (this.#frameBytes > this.#frameBytesMax)
      throw new RemusterError('TOO_LARGE', 'the frame of an answer is too large');
    if (this.#sawReturn && code !== lf) throw malformedResponse('a carriage return stands alone');
    this.#sawReturn = code === cr;
    if (this.#sawReturn) return;
    if (this.#place === state.size) this.#sizeByte(code, bodyBytes);
    else if (this.#place === state.dataEnd) this.#dataEndByte(code);
    else if (this.#place === state.trailer) this.#trailerByte(code);
    else if (code === lf) this.#sizeKnown(bodyBytes);
  }

  #sizeByte(code: number, bodyBytes: number): void {
    if (code === lf) return this.#sizeKnown(bodyBytes);
    // Blanks before an extension are bad manners that some servers have.
    if (code === semicolon || code === 32 || code === 9) {
      this.#place = state.extension;
      return;
    }
    const value = hexDigit(code);
    this.#digits += 1;
    if (value < 0 || this.#digits > sizeDigitsMax) throw malformedResponse('the size of a chunk is no number');
    this.#left = this.#left * 16 + value;
  }

  #sizeKnown(bodyBytes: number): void {
    if (this.#digits === 0) throw malformedResponse('a chunk has no size');
    if (bodyBytes + this.#left > this.#bodyBytesMax) throw bodyTooLarge(this.#bodyBytesMax);
    this.#digits = 0;
    this.#lineBytes = 0;
    this.#place = this.#left === 0 ? state.trailer : state.data;
  }

  #dataEndByte(code: number): void {
    if (code !== lf) throw malformedResponse('a chunk is longer than its size');
    this.#place = state.size;
    this.#frameBytes = 0;
  }

  #trailerByte(code: number): void {
    if (code !== lf) this.#lineBytes += 1;
    else if (this.#lineBytes === 0) this.#place = state.over;
    else this.#lineBytes = 0;
  }
}

export function bodyTooLarge(bodyBytesMax: number): RemusterError {
  return new RemusterError('TOO_LARGE', `the body of an answer has more than ${bodyBytesMax} bytes`);
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const small = code | 0x20;
  return small >= 97 && small <= 102 ? small - 87 : -1;
}
