/**
 * Finds one response in arriving bytes, and its end (RFC 9112, 6.3). One pass for a response in one piece. Skips 1xx
 * responses. Llhttp (decision 18) is on npm only as a generator of C, or as WebAssembly inside undici.
 */
import { RemusterError } from '../../base/errors.ts';
import { bodyTooLarge, ChunkReader } from './chunk-reader.ts';
import { GrowingBytes } from './growing-bytes.ts';
import type { HttpLimits } from './http-limits.ts';
import { malformedResponse, ResponseHead } from './response-head.ts';
import type { DecodeLatin1 } from './socket-port.ts';

/** The part of the response that the next bytes belong to. */
const readState = { head: 0, length: 1, chunks: 2, untilClosed: 3 } as const;

export type ResponseLimits = Pick<HttpLimits, 'headBytesMax' | 'bodyBytesMax'>;

export class ResponseReader {
  readonly #limits: ResponseLimits;
  readonly #latin1: DecodeLatin1;
  readonly #head = new ResponseHead();
  readonly #chunks: ChunkReader;
  /** The start of a head whose end has not arrived. */
  readonly #partialHead = new GrowingBytes();
  readonly #body = new GrowingBytes();
  #stage: number = readState.head;
  #isBodiless = false;
  #left = 0;
  /** The head, followed by the body if that arrived in one piece; one character per byte. */
  text = '';
  /** Where the body starts in `text`. */
  bodyAt = 0;
  /** The body, unless `text` has it. */
  bytes: Uint8Array | undefined;

  constructor(limits: ResponseLimits, latin1: DecodeLatin1) {
    this.#limits = limits;
    this.#latin1 = latin1;
    this.#chunks = new ChunkReader(limits.headBytesMax, limits.bodyBytesMax);
  }

  get status(): number {
    return this.#head.status;
  }

  /** After the end of a response: the connection can carry another request. */
  get isKeptAlive(): boolean {
    return this.#head.isKeptAlive && this.#stage !== readState.untilClosed;
  }

  /** Prepares for the next response. A response to HEAD has no body, whatever its head says. */
  reset(isHead: boolean): void {
    this.#stage = readState.head;
    this.#isBodiless = isHead;
    this.text = '';
    this.bytes = undefined;
    if (this.#partialHead.length > 0) this.#partialHead.clear();
    if (this.#body.length > 0) this.#body.clear();
  }

  /** Returns the position after the response, or -1 if it continues. Throws MALFORMED or TOO_LARGE. */
  read(bytes: Uint8Array, from: number, to: number): number {
    if (this.#stage !== readState.head) return this.#readBody(bytes, from, to);
    if (this.#partialHead.length === 0) return this.#readHead(bytes, from, to);
    const before = this.#partialHead.length;
    this.#partialHead.append(bytes, from, to);
    const { view } = this.#partialHead;
    if (!hasHeadEnd(view, before)) return this.#onPartialHead(view.length);
    this.#partialHead.clear();
    const end = this.#readHead(view, 0, view.length);
    return end < 0 ? end : end - before + from;
  }

  /** The connection was closed. True if that ends the response. */
  closed(): boolean {
    if (this.#stage !== readState.untilClosed) return false;
    this.bytes = this.#body.take();
    return true;
  }

  #readHead(bytes: Uint8Array, from: number, to: number): number {
    const head = this.#head;
    let start = from;
    let at = head.parse(bytes, start, to);
    while (at >= 0 && head.status < 200) {
      if (head.status === 101) throw malformedResponse('it switches protocols without a request for that');
      start = at;
      at = start === to ? -1 : head.parse(bytes, start, to);
    }
    if (at < 0) {
      this.#partialHead.append(bytes, start, to);
      return this.#onPartialHead(to - start);
    }
    if (at - start > this.#limits.headBytesMax) throw headTooLarge(this.#limits.headBytesMax);
    return this.#onHead(bytes, start, at, to);
  }

  #onPartialHead(length: number): -1 {
    if (length > this.#limits.headBytesMax) throw headTooLarge(this.#limits.headBytesMax);
    return -1;
  }

  #onHead(bytes: Uint8Array, start: number, at: number, to: number): number {
    const head = this.#head;
    const { contentLength, status } = head;
    this.bodyAt = at - start;
    const isEmpty = this.#isBodiless || status === 204 || status === 304;
    const length = isEmpty ? 0 : contentLength;
    if (length > this.#limits.bodyBytesMax) throw bodyTooLarge(this.#limits.bodyBytesMax);
    // Both a length and chunks may be an attack (RFC 9112, 6.3): the chunks count, and the connection is not reused.
    if (head.isChunked && contentLength >= 0) head.isKeptAlive = false;
    if (isEmpty || (!head.isChunked && length >= 0 && length <= to - at)) {
      this.text = this.#latin1(bytes, start, at + length);
      return at + length;
    }
    this.text = this.#latin1(bytes, start, at);
    if (head.isChunked) this.#chunks.reset();
    this.#stage = head.isChunked ? readState.chunks : length >= 0 ? readState.length : readState.untilClosed;
    this.#left = length;
    return this.#readBody(bytes, at, to);
  }

  #readBody(bytes: Uint8Array, from: number, to: number): number {
    if (this.#stage === readState.chunks) {
      const end = this.#chunks.read(bytes, from, to, this.#body);
      if (!this.#chunks.isDone) return -1;
      this.bytes = this.#body.take();
      return end;
    }
    if (this.#stage === readState.untilClosed) {
      if (this.#body.length + to - from > this.#limits.bodyBytesMax) throw bodyTooLarge(this.#limits.bodyBytesMax);
      this.#body.append(bytes, from, to);
      return -1;
    }
    const end = Math.min(to, from + this.#left);
    this.#body.append(bytes, from, end);
    this.#left -= end - from;
    if (this.#left > 0) return -1;
    this.bytes = this.#body.take();
    return end;
  }
}

/** True if an empty line ends after `known`: a head that arrives in small pieces is parsed once, not once per piece. */
function hasHeadEnd(bytes: Uint8Array, known: number): boolean {
  for (let i = Math.max(1, known); i < bytes.length; i++) {
    if (bytes[i] !== 10) continue;
    if (bytes[i - 1] === 10 || (bytes[i - 1] === 13 && bytes[i - 2] === 10)) return true;
  }
  return false;
}

function headTooLarge(headBytesMax: number): RemusterError {
  return new RemusterError('TOO_LARGE', `the head of the response has more than ${headBytesMax} bytes`);
}
