/**
 * Writes wire primitives into shared slabs and checks the total size. Never rewrites bytes that were handed out. A
 * message is a view of a slab, because a fresh ArrayBuffer costs more than encoding a small message; one that outgrows
 * its slab is copied out of a large buffer once. Limits of single values belong to the field types.
 */
import { RemusterError } from '../../base/errors.ts';

const scratch = new DataView(new ArrayBuffer(8));
const scratchBytes = new Uint8Array(scratch.buffer);
const encoder = new TextEncoder();

/** No declaration may allow more (message.ts), so a length takes at most four bytes. */
export const wireBytesMax = 0x0fff_ffff;

const slabBytes = 8_192;
const largeBytes = 1_048_576;
/** A slab with less room than this is dropped; messages in it retain it. */
const roomBytesMin = 1_024;
/** Shorter text is encoded in a loop, which costs less than a call of TextEncoder. */
const loopEncodeMax = 64;

export class WireWriter {
  #bytes = new Uint8Array(slabBytes);
  /** The buffer of `#bytes`, cached because the getter is slow. */
  #buffer = this.#bytes.buffer;
  /** Allocated on first use; never handed out. */
  #large: Uint8Array<ArrayBuffer> | undefined;
  /** Start of the current message. */
  #origin = 0;
  #bytesMax = wireBytesMax;
  position = 0;

  /** Starts a message with its header. */
  start(bytesMax: number, version: number, tag: number): void {
    this.#bytesMax = bytesMax;
    // `finish` ensures that a slab always has room for a header.
    const bytes = this.#bytes;
    const at = this.position;
    bytes[at] = version;
    bytes[at + 1] = tag >> 8;
    bytes[at + 2] = tag;
    this.position = at + 3;
  }

  /** Starts bytes without a message header. */
  limit(bytesMax: number): void {
    this.#bytesMax = bytesMax;
  }

  byte(value: number): void {
    if (this.position === this.#bytes.length) this.#grow(1);
    this.#bytes[this.position++] = value;
  }

  /** Integers from 0 to 2^53 - 1, seven bits per byte, low bits first. */
  varint(value: number): void {
    if (this.position + 8 > this.#bytes.length) this.#grow(8);
    const bytes = this.#bytes;
    let rest = value;
    let at = this.position;
    // Bit operators truncate to 32 bits: divide until the rest fits.
    while (rest > 0xffff_ffff) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest = Math.floor(rest / 128);
    }
    while (rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
    this.position = at;
  }

  float64(value: number): void {
    scratch.setFloat64(0, value);
    this.#scratch8();
  }

  bigUint64(value: bigint): void {
    scratch.setBigUint64(0, value);
    this.#scratch8();
  }

  bytes(value: Uint8Array): void {
    if (this.position + value.length > this.#bytes.length) this.#grow(value.length);
    this.#bytes.set(value, this.position);
    this.position += value.length;
  }

  /** Writes length and bytes of short ASCII text. False if the text is not: nothing is written then. */
  shortAscii(value: string): boolean {
    const length = value.length;
    if (length > loopEncodeMax) return false;
    if (this.position + 1 + length > this.#bytes.length) this.#grow(1 + length);
    const bytes = this.#bytes;
    const start = this.position + 1;
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code > 0x7f) return false;
      bytes[start + i] = code;
    }
    bytes[start - 1] = length;
    this.position = start + length;
    return true;
  }

  /** Writes the bytes of lower-case hex digits. False if there are other characters. */
  hex(digits: string): boolean {
    const count = digits.length >> 1;
    if (this.position + count > this.#bytes.length) this.#grow(count);
    const bytes = this.#bytes;
    const start = this.position;
    for (let i = 0; i < count; i++) {
      const high = hexDigit(digits.charCodeAt(i * 2));
      const low = hexDigit(digits.charCodeAt(i * 2 + 1));
      if (high < 0 || low < 0) return false;
      bytes[start + i] = (high << 4) | low;
    }
    this.position = start + count;
    return true;
  }

  /** Writes length and UTF-8 of well-formed text; returns the number of bytes without the length. */
  text(value: string): number {
    const start = this.begin();
    const worst = value.length * 3;
    if (this.position + worst > this.#bytes.length) this.#grow(worst);
    const { written } = encoder.encodeInto(value, this.#bytes.subarray(this.position));
    this.position += written;
    this.end(start);
    return written;
  }

  /** Reserves one byte for the length of a delimited part; `end` fills it in. */
  begin(): number {
    this.byte(0);
    return this.position;
  }

  /** A length of more than one byte moves the part, which is cheaper than measuring it first. */
  end(start: number): void {
    const length = this.position - start;
    if (length <= 0x7f) {
      this.#bytes[start - 1] = length;
      return;
    }
    const extra = length < 0x4000 ? 1 : length < 0x20_0000 ? 2 : 3;
    if (this.position + extra > this.#bytes.length) this.#grow(extra);
    this.#bytes.copyWithin(start + extra, start, this.position);
    this.position = start - 1;
    this.varint(length);
    this.position = start + extra + length;
  }

  /** Bytes of the current message so far. */
  get length(): number {
    return this.position - this.#origin;
  }

  /** Returns the message; the next one begins after it. */
  finish(): Uint8Array {
    this.#checkLength();
    const out =
      this.#bytes === this.#large
        ? this.#bytes.slice(this.#origin, this.position)
        : new Uint8Array(this.#buffer, this.#origin, this.length);
    this.#origin = this.position;
    if (this.#bytes.length !== slabBytes || this.position + roomBytesMin > slabBytes) this.#freshSlab();
    return out;
  }

  /** Drops an unfinished message. */
  reset(): void {
    this.position = this.#origin;
    if (this.#bytes.length !== slabBytes) this.#freshSlab();
  }

  #checkLength(): void {
    if (this.length <= this.#bytesMax) return;
    throw new RemusterError('TOO_LARGE', `a message exceeds its limit of ${this.#bytesMax} bytes`);
  }

  #freshSlab(): void {
    this.#bytes = new Uint8Array(slabBytes);
    this.#buffer = this.#bytes.buffer;
    this.#origin = 0;
    this.position = 0;
  }

  #scratch8(): void {
    if (this.position + 8 > this.#bytes.length) this.#grow(8);
    const bytes = this.#bytes;
    const at = this.position;
    for (let i = 0; i < 8; i++) bytes[at + i] = scratchBytes[i] as number;
    this.position = at + 8;
  }

  /** All bytes keep their position, because open parts remember theirs. */
  #grow(needed: number): void {
    this.#checkLength();
    const bytes = Math.max(this.#bytes.length * 2, this.position + needed + roomBytesMin);
    const larger = bytes <= largeBytes ? (this.#large ??= new Uint8Array(largeBytes)) : new Uint8Array(bytes);
    larger.set(this.#bytes.subarray(this.#origin, this.position), this.#origin);
    this.#bytes = larger;
    this.#buffer = larger.buffer;
  }
}

function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  return code >= 0x61 && code <= 0x66 ? code - 0x57 : -1;
}
