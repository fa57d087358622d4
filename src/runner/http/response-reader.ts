/**
 * Finds one response in arriving bytes and where it ends (RFC 9112, 6.3). One pass for a response in one piece. Skips
 * 1xx. Compared with llhttp (decision 18): npm has it only as a generator of C, or as WebAssembly inside undici.
 */
import { RemusterError } from '../../base/errors.ts';
import { bodyTooLarge, ChunkReader } from './chunk-reader.ts';
import { GrowingBytes } from './growing-bytes.ts';
import type { HttpLimits } from './http-limits.ts';
import { malformedResponse, ResponseHead } from './response-head.ts';
import type { DecodeLatin1 } from './socket-port.ts';

/** What comes next. */
const readState = { head: 0, length: 1, chunks: 2, untilClosed: 3 } as const;

export type ResponseLimits = Pick<HttpLimits, 'headBytesMax' | 'bodyBytesMax'>;

export class ResponseReader {
  readonly #limits: ResponseLimits;
  readonly #latin1: DecodeLatin1;
  readonly #head = new ResponseHead();
  readonly #chunks: ChunkReader;
  /** The beginning of a head whose end has not come. */
  readonly #partialHead = new GrowingBytes();
  readonly #body = new GrowingBytes();
  #stage: number = readState.head;
  #isBodiless = false;
  #left = 0;
  /** The head, and after it the body if that came in one piece; a character for each byte. */
  text = '';
  /** Where in `text` the body begins. */
  bodyAt = 0;
  /** The body, unless `text` holds it. */
  bytes: Uint8Array | undefined;

  constructor(limits: ResponseLimits, latin1: DecodeLatin1) {
    this.#limits = limits;
    this.#latin1 = latin1;
    this.#chunks = new ChunkReader(limits.headBytesMax, limits.bodyBytesMax);
  }

  get status(): number {
    return this.#head.status;
  }

  /** Of an answer that is over: can the connection carry another one? */
  get isKeptAlive(): boolean {
    return this.#head.isKeptAlive && this.#stage !== readState.untilClosed;
  }

  /** The answer to HEAD has no body, whatever its head says. */
  begin(isHead: boolean): void {
    this.#stage = readState.head;
    this.#isBodiless = isHead;
    this.text = '';
    this.bytes = undefined;
    if (this.#partialHead.length > 0) this.#partialHead.clear();
    if (this.#body.length > 0) this.#body.clear();
  }

  /** The position after the answer, or -1 when it goes on. Throws MALFORMED or TOO_LARGE. */
  read(bytes: Uint8Array, from: number, to: number): number {
    if (this.#stage !== readState.head) return this.#readBody(bytes, from, to);
    if (this.#partialHead.length === 0) return this.#readHead(bytes, from, to);
    const before = this.#partialHead.length;
    this.#partialHead.append(bytes, from, to);
    const { view } = this.#partialHead;
    if (!hasHeadEnd(view, before)) return this.#headGoesOn(view.length);
    this.#partialHead.clear();
    const end = this.#readHead(view, 0, view.length);
    return end < 0 ? end : end - before + from;
  }

  /** The connection ended: true if this was the end of the answer. */
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
      if (head.status === 101) throw malformedResponse('it changes to another protocol, which nobody asked for');
      start = at;
      at = start === to ? -1 : head.parse(bytes, start, to);
    }
    if (at < 0) {
      this.#partialHead.append(bytes, start, to);
      return this.#headGoesOn(to - start);
    }
    if (at - start > this.#limits.headBytesMax) throw headTooLarge(this.#limits.headBytesMax);
    return this.#headKnown(bytes, start, at, to);
  }

  #headGoesOn(length: number): -1 {
    if (length > this.#limits.headBytesMax) throw headTooLarge(this.#limits.headBytesMax);
    return -1;
  }

  #headKnown(bytes: Uint8Array, start: number, at: number, to: number): number {
    const head = this.#head;
    const { contentLength, status } = head;
    this.bodyAt = at - start;
    const isEmpty = this.#isBodiless || status === 204 || status === 304;
    const length = isEmpty ? 0 : contentLength;
    if (length > this.#limits.bodyBytesMax) throw bodyTooLarge(this.#limits.bodyBytesMax);
    // A length beside chunks is a trap (RFC 9112, 6.3): the chunks count, and the connection is not used again.
    if (head.isChunked && contentLength >= 0) head.isKeptAlive = false;
    if (isEmpty || (!head.isChunked && length >= 0 && length <= to - at)) {
      this.text = this.#latin1(bytes, start, at + length);
      return at + length;
    }
    this.text = this.#latin1(bytes, start, at);
    if (head.isChunked) this.#chunks.begin();
    this.#stage = head.isChunked ? readState.chunks : length >= 0 ? readState.length : readState.untilClosed;
    this.#left = length;
    return this.#readBody(bytes, at, to);
  }

  #readBody(bytes: Uint8Array, from: number, to: number): number {
    if (this.#stage === readState.chunks) {
      const end = this.#chunks.read(bytes, from, to, this.#body);
      if (!this.#chunks.isOver) return -1;
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

/** Is there an empty line that ends after `known`? So a head that drips in is looked at once, not once for each drop. */
function hasHeadEnd(bytes: Uint8Array, known: number): boolean {
  for (let i = Math.max(1, known); i < bytes.length; i++) {
    if (bytes[i] !== 10) continue;
    if (bytes[i - 1] === 10 || (bytes[i - 1] === 13 && bytes[i - 2] === 10)) return true;
  }
  return false;
}

function headTooLarge(headBytesMax: number): RemusterError {
  return new RemusterError('TOO_LARGE', `the head of an answer has more than ${headBytesMax} bytes`);
}
