/**
 * Decodes a chunked body (RFC 9112, 7.1) from arbitrary pieces. Framing and content are bounded, so every body ends.
 * Extensions and trailers are ignored.
 */
import { RemusterError } from '../../base/errors.ts';
import type { GrowingBytes } from './growing-bytes.ts';
import { malformedResponse } from './response-head.ts';

const lf = 10;
const cr = 13;
const semicolon = 59;

/** The part of the framing that the next byte belongs to. */
const state = { size: 0, extension: 1, data: 2, dataEnd: 3, trailer: 4, done: 5 } as const;

/** Hexadecimal digits of a chunk size. */
const sizeDigitsMax = 8;

export class ChunkReader {
  readonly #frameBytesMax: number;
  readonly #bodyBytesMax: number;
  #state: number = state.size;
  #left = 0;
  #digits = 0;
  /** Length of the present trailer line; an empty line ends the trailers. */
  #lineBytes = 0;
  #frameBytes = 0;
  #sawReturn = false;

  constructor(frameBytesMax: number, bodyBytesMax: number) {
    this.#frameBytesMax = frameBytesMax;
    this.#bodyBytesMax = bodyBytesMax;
  }

  reset(): void {
    this.#state = state.size;
    this.#left = 0;
    this.#digits = 0;
    this.#frameBytes = 0;
    this.#sawReturn = false;
  }

  get isDone(): boolean {
    return this.#state === state.done;
  }

  /** Appends the content to `body`. Returns the position after the last byte of the response. */
  read(bytes: Uint8Array, from: number, to: number, body: GrowingBytes): number {
    let at = from;
    while (at < to && this.#state !== state.done) {
      if (this.#state !== state.data) {
        this.#framingByte(bytes[at] as number, body.length);
        at += 1;
        continue;
      }
      const end = Math.min(to, at + this.#left);
      body.append(bytes, at, end);
      this.#left -= end - at;
      at = end;
      if (this.#left === 0) this.#state = state.dataEnd;
    }
    return at;
  }

  #framingByte(code: number, bodyBytes: number): void {
    this.#frameBytes += 1;
    if (this.#frameBytes > this.#frameBytesMax)
      throw new RemusterError(
        'TOO_LARGE',
        `the framing of a chunked response has more than ${this.#frameBytesMax} bytes`,
      );
    if (this.#sawReturn && code !== lf) throw malformedResponse('a carriage return without a line feed');
    this.#sawReturn = code === cr;
    if (this.#sawReturn) return;
    if (this.#state === state.size) this.#sizeByte(code, bodyBytes);
    else if (this.#state === state.dataEnd) this.#dataEndByte(code);
    else if (this.#state === state.trailer) this.#trailerByte(code);
    else if (code === lf) this.#onSizeEnd(bodyBytes);
  }

  #sizeByte(code: number, bodyBytes: number): void {
    if (code === lf) return this.#onSizeEnd(bodyBytes);
    // Some servers send blanks before an extension.
    if (code === semicolon || code === 32 || code === 9) {
      this.#state = state.extension;
      return;
    }
    const value = hexDigit(code);
    this.#digits += 1;
    if (value < 0 || this.#digits > sizeDigitsMax) throw malformedResponse('the size of a chunk is not a number');
    this.#left = this.#left * 16 + value;
  }

  #onSizeEnd(bodyBytes: number): void {
    if (this.#digits === 0) throw malformedResponse('a chunk has no size');
    if (bodyBytes + this.#left > this.#bodyBytesMax) throw bodyTooLarge(this.#bodyBytesMax);
    this.#digits = 0;
    this.#lineBytes = 0;
    this.#state = this.#left === 0 ? state.trailer : state.data;
  }

  #dataEndByte(code: number): void {
    if (code !== lf) throw malformedResponse('a chunk is longer than its size');
    this.#state = state.size;
    this.#frameBytes = 0;
  }

  #trailerByte(code: number): void {
    if (code !== lf) this.#lineBytes += 1;
    else if (this.#lineBytes === 0) this.#state = state.done;
    else this.#lineBytes = 0;
  }
}

export function bodyTooLarge(bodyBytesMax: number): RemusterError {
  return new RemusterError('TOO_LARGE', `the body of the response has more than ${bodyBytesMax} bytes`);
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 0x20;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
