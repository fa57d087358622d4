/**
 * Parses the head of an HTTP/1.x response: status, framing, keep-alive. Ambiguous framing (RFC 9112) is MALFORMED and
 * never guessed.
 */
import { RemusterError } from '../../base/errors.ts';

const lf = 10;
const cr = 13;
const space = 32;
const tab = 9;
const comma = 44;
const colon = 58;

/** `HTTP/1.`; a digit, a space and the three digits of the status follow. */
const start = [72, 84, 84, 80, 47, 49, 46];
const statusLineBytesMin = 12;

const contentLength = codesOf('content-length');
const transferEncoding = codesOf('transfer-encoding');
const connection = codesOf('connection');
const chunkedWord = codesOf('chunked');
const identityWord = codesOf('identity');
const closeWord = codesOf('close');
const keepAliveWord = codesOf('keep-alive');

/** 1 for each byte that is allowed in a header name. */
const isNameByte = Uint8Array.from({ length: 256 }, (_, code) =>
  /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)) && code < 128 ? 1 : 0,
);

/** The result of the last parse(). */
export class ResponseHead {
  status = 0;
  isChunked = false;
  /** -1 without a content-length header. */
  contentLength = -1;
  isKeptAlive = true;
  #hasClose = false;

  /** Returns the position after the empty line; -1 if the head continues after `to`. Throws MALFORMED. */
  parse(bytes: Uint8Array, from: number, to: number): number {
    this.isChunked = false;
    this.contentLength = -1;
    this.#hasClose = false;
    let at = this.#statusLine(bytes, from, to);
    while (at >= 0 && at < to) {
      const first = bytes[at] as number;
      if (first === lf) return at + 1;
      if (first === cr) {
        if (at + 1 === to) return -1;
        if (bytes[at + 1] !== lf) throw malformedResponse('a carriage return without a line feed');
        return at + 2;
      }
      at = this.#header(bytes, at, to);
    }
    return -1;
  }

  #statusLine(bytes: Uint8Array, from: number, to: number): number {
    const known = Math.min(start.length, to - from);
    for (let i = 0; i < known; i++)
      if (bytes[from + i] !== start[i]) throw malformedResponse('it does not start with HTTP/1');
    if (to - from < statusLineBytesMin + 1) return -1;
    const minor = digit(bytes[from + 7] as number);
    const [hundreds, tens, ones] = [bytes[from + 9], bytes[from + 10], bytes[from + 11]] as [number, number, number];
    const after = bytes[from + statusLineBytesMin] as number;
    const isWhole = bytes[from + 8] === space && (after === space || after === cr || after === lf);
    this.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
    if (!isWhole || this.status < 100) throw malformedResponse('its first line is not a status line');
    this.isKeptAlive = minor > 0;
    return lineEnd(bytes, from + statusLineBytesMin, to);
  }

  /** Parses one header. Returns the position of the next line, or -1. */
  #header(bytes: Uint8Array, from: number, to: number): number {
    let at = from;
    while (at < to && isNameByte[bytes[at] as number] === 1) at += 1;
    if (at === to) return -1;
    if (bytes[at] !== colon || at === from) throw malformedResponse('a header name is invalid');
    const next = lineEnd(bytes, at + 1, to);
    if (next < 0) return -1;
    // All relevant names start with c or t.
    const initial = (bytes[from] as number) | 0x20;
    if (initial === 0x63 || initial === 0x74) this.#onHeader(bytes, from, at, next);
    return next;
  }

  #onHeader(bytes: Uint8Array, from: number, colonAt: number, next: number): void {
    const length = colonAt - from;
    if (length === contentLength.length && isWord(bytes, from, colonAt, contentLength)) {
      this.#onLength(bytes, colonAt + 1, next);
    } else if (length === connection.length && isWord(bytes, from, colonAt, connection)) {
      this.#onTokens(bytes, colonAt + 1, next, false);
    } else if (length === transferEncoding.length && isWord(bytes, from, colonAt, transferEncoding)) {
      this.#onTokens(bytes, colonAt + 1, next, true);
    }
  }

  /** Handles each non-empty token of a comma-separated list, without surrounding blanks. */
  #onTokens(bytes: Uint8Array, from: number, next: number, isCoding: boolean): void {
    let first = from;
    for (let i = from; i <= next; i++) {
      if (i < next && bytes[i] !== comma) continue;
      let end = i;
      while (first < end && isBlank(bytes[first] as number)) first += 1;
      while (end > first && isBlank(bytes[end - 1] as number)) end -= 1;
      if (end > first) this.#onToken(bytes, first, end, isCoding);
      first = i + 1;
    }
  }

  #onToken(bytes: Uint8Array, from: number, to: number, isCoding: boolean): void {
    if (!isCoding) {
      // With both tokens `close` wins.
      if (isWord(bytes, from, to, keepAliveWord)) this.isKeptAlive = !this.#hasClose;
      else if (isWord(bytes, from, to, closeWord)) {
        this.isKeptAlive = false;
        this.#hasClose = true;
      }
      return;
    }
    if (isWord(bytes, from, to, identityWord)) return;
    if (this.isChunked || !isWord(bytes, from, to, chunkedWord))
      throw malformedResponse('its transfer-encoding is unknown');
    this.isChunked = true;
  }

  #onLength(bytes: Uint8Array, from: number, next: number): void {
    let [first, end] = [from, next];
    while (isBlank(bytes[first] as number) && first < end) first += 1;
    while (end > first && isBlank(bytes[end - 1] as number)) end -= 1;
    if (first === end || end - first > 15) throw malformedResponse('its content-length is not a number');
    let length = 0;
    for (let i = first; i < end; i++) length = length * 10 + digit(bytes[i] as number);
    if (this.contentLength >= 0 && this.contentLength !== length)
      throw malformedResponse('it has two different lengths');
    this.contentLength = length;
  }
}

export function malformedResponse(why: string): RemusterError {
  return new RemusterError('MALFORMED', `the response is malformed: ${why}`);
}

/** The position after the line feed, or -1. */
function lineEnd(bytes: Uint8Array, from: number, to: number): number {
  for (let i = from; i < to; i++) {
    const code = bytes[i] as number;
    if (code >= space || code === tab) continue;
    if (code === lf) return i + 1;
    if (code !== cr) throw malformedResponse('a header contains a control character');
    if (i + 1 === to) return -1;
    if (bytes[i + 1] !== lf) throw malformedResponse('a carriage return without a line feed');
  }
  return -1;
}

/** Compares case-insensitively with a lower-case word. */
function isWord(bytes: Uint8Array, from: number, to: number, word: readonly number[]): boolean {
  if (to - from !== word.length) return false;
  for (let i = 0; i < word.length; i++) {
    const code = bytes[from + i] as number;
    const lower = code >= 65 && code <= 90 ? code + 32 : code;
    if (lower !== word[i]) return false;
  }
  return true;
}

function isBlank(code: number): boolean {
  return code === space || code === tab || code === cr || code === lf;
}

function digit(code: number): number {
  if (code < 48 || code > 57) throw malformedResponse('a digit is missing');
  return code - 48;
}

function codesOf(word: string): readonly number[] {
  return Array.from(word, (letter) => letter.charCodeAt(0));
}
