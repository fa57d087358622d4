/**
 * Parses an HTTP/1.x response head from bytes: status, framing, keep-alive. Rejects ambiguous framing (RFC 9112) as
 * MALFORMED, never guesses.
 */
import { RemusterError } from '../../base/errors.ts';

const lf = 10;
const cr = 13;
const space = 32;
const tab = 9;
const comma = 44;
const colon = 58;

/** `HTTP/1.`; then a digit, a space and the three digits of the status. */
const start = [72, 84, 84, 80, 47, 49, 46];
const statusLineBytesMin = 12;

const contentLength = codesOf('content-length');
const transferEncoding = codesOf('transfer-encoding');
const connection = codesOf('connection');
const chunkedWord = codesOf('chunked');
const identityWord = codesOf('identity');
const closeWord = codesOf('close');
const keepAliveWord = codesOf('keep-alive');

/** By byte: may it stand in the name of a header? */
const isNameByte = Uint8Array.from({ length: 256 }, (_, code) =>
  /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)) && code < 128 ? 1 : 0,
);

/** The state of one reading; parse() begins it anew. */
export class ResponseHead {
  status = 0;
  isChunked = false;
  /** -1 when the answer does not say. */
  contentLength = -1;
  isKeptAlive = true;
  #saidClose = false;

  /** The position after the empty line; -1 when the head goes on after `to`. Throws for what is no head. */
  parse(bytes: Uint8Array, from: number, to: number): number {
    this.isChunked = false;
    this.contentLength = -1;
    this.#saidClose = false;
    let at = this.#statusLine(bytes, from, to);
    while (at >= 0 && at < to) {
      const first = bytes[at] as number;
      if (first === lf) return at + 1;
      if (first === cr) {
        if (at + 1 === to) return -1;
        if (bytes[at + 1] !== lf) throw malformedResponse('a carriage return stands alone');
        return at + 2;
      }
      at = this.#header(bytes, at, to);
    }
    return -1;
  }

  #statusLine(bytes: Uint8Array, from: number, to: number): number {
    const known = Math.min(start.length, to - from);
    for (let i = 0; i < known; i++) if (bytes[from + i] !== start[i]) throw malformedResponse('it is no HTTP/1');
    if (to - from < statusLineBytesMin + 1) return -1;
    const minor = digit(bytes[from + 7] as number);
    const [hundreds, tens, ones] = [bytes[from + 9], bytes[from + 10], bytes[from + 11]] as [number, number, number];
    const after = bytes[from + statusLineBytesMin] as number;
    const isWhole = bytes[from + 8] === space && (after === space || after === cr || after === lf);
    this.status = digit(hundreds) * 100 + digit(tens) * 10 + digit(ones);
    if (!isWhole || this.status < 100) throw malformedResponse('its first line is no status line');
    this.isKeptAlive = minor > 0;
    return lineEnd(bytes, from + statusLineBytesMin, to);
  }

  /** One line. The position of the next one, or -1. */
  #header(bytes: Uint8Array, from: number, to: number): number {
    let at = from;
    while (at < to && isNameByte[bytes[at] as number] === 1) at += 1;
    if (at === to) return -1;
    if (bytes[at] !== colon || at === from) throw malformedResponse('a header has no proper name');
    const next = lineEnd(bytes, at + 1, to);
    if (next < 0) return -1;
    // The names that matter here begin with c or t.
    const initial = (bytes[from] as number) | 0x20;
    if (initial === 0x63 || initial === 0x74) this.#note(bytes, from, at, next);
    return next;
  }

  #note(bytes: Uint8Array, from: number, colonAt: number, next: number): void {
    const length = colonAt - from;
    if (length === contentLength.length && isWord(bytes, from, colonAt, contentLength)) {
      this.#noteLength(bytes, colonAt + 1, next);
    } else if (length === connection.length && isWord(bytes, from, colonAt, connection)) {
      this.#noteWords(bytes, colonAt + 1, next, false);
    } else if (length === transferEncoding.length && isWord(bytes, from, colonAt, transferEncoding)) {
      this.#noteWords(bytes, colonAt + 1, next, true);
    }
  }

  /** Each part between commas that is not empty, without the blanks around it. */
  #noteWords(bytes: Uint8Array, from: number, next: number, isCoding: boolean): void {
    let first = from;
    for (let i = from; i <= next; i++) {
      if (i < next && bytes[i] !== comma) continue;
      let end = i;
      while (first < end && isBlank(bytes[first] as number)) first += 1;
      while (end > first && isBlank(bytes[end - 1] as number)) end -= 1;
      if (end > first) this.#noteWord(bytes, first, end, isCoding);
      first = i + 1;
    }
  }

  #noteWord(bytes: Uint8Array, from: number, to: number, isCoding: boolean): void {
    if (!isCoding) {
      // Whoever says both means the careful one.
      if (isWord(bytes, from, to, keepAliveWord)) this.isKeptAlive = !this.#saidClose;
      else if (isWord(bytes, from, to, closeWord)) {
        this.isKeptAlive = false;
        this.#saidClose = true;
      }
      return;
    }
    if (isWord(bytes, from, to, identityWord)) return;
    if (this.isChunked || !isWord(bytes, from, to, chunkedWord))
      throw malformedResponse('its transfer coding is unknown');
    this.isChunked = true;
  }

  #noteLength(bytes: Uint8Array, from: number, next: number): void {
    let [first, end] = [from, next];
    while (isBlank(bytes[first] as number) && first < end) first += 1;
    while (end > first && isBlank(bytes[end - 1] as number)) end -= 1;
    if (first === end || end - first > 15) throw malformedResponse('its length is no number');
    let length = 0;
    for (let i = first; i < end; i++) length = length * 10 + digit(bytes[i] as number);
    if (this.contentLength >= 0 && this.contentLength !== length) throw malformedResponse('it names two lengths');
    this.contentLength = length;
  }
}

export function malformedResponse(why: string): RemusterError {
  return new RemusterError('MALFORMED', `the answer cannot be read: ${why}`);
}

/** The position after the line feed, or -1. */
function lineEnd(bytes: Uint8Array, from: number, to: number): number {
  for (let i = from; i < to; i++) {
    const code = bytes[i] as number;
    if (code >= space || code === tab) continue;
    if (code === lf) return i + 1;
    if (code !== cr) throw malformedResponse('a control character stands in a header');
    if (i + 1 === to) return -1;
    if (bytes[i + 1] !== lf) throw malformedResponse('a carriage return stands alone');
  }
  return -1;
}

/** `word` is in small letters. */
function isWord(bytes: Uint8Array, from: number, to: number, word: readonly number[]): boolean {
  if (to - from !== word.length) return false;
  for (let i = 0; i < word.length; i++) {
    const code = bytes[from + i] as number;
    const small = code >= 65 && code <= 90 ? code + 32 : code;
    if (small !== word[i]) return false;
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
