/**
 * Reads wire primitives from untrusted bytes. Checks every length before use, accepts one encoding per number,
 * allocates nothing.
 */
import { type DecodeError, type RejectionReason, decodeError } from './decode-error.ts';

const scratch = new DataView(new ArrayBuffer(8));
const scratchBytes = new Uint8Array(scratch.buffer);

/** How to skip a field without knowing its type. */
export const wireTypes = { varint: 0, fixed64: 1, delimited: 2 } as const;
export type WireType = (typeof wireTypes)[keyof typeof wireTypes];

export const fieldNumberMax = 4_095;

export class WireReader {
  readonly bytes: Uint8Array;
  position: number;
  /** End of the message, or of the length-delimited part that is being read. */
  end: number;

  constructor(bytes: Uint8Array, position: number) {
    this.bytes = bytes;
    this.position = position;
    this.end = bytes.length;
  }

  /** An integer up to 2^53 - 1. */
  varint(label: string): number {
    const at = this.position;
    if (at < this.end) {
      const first = this.bytes[at] as number;
      if (first < 0x80) {
        this.position = at + 1;
        return first;
      }
    }
    return this.#longVarint(label);
  }

  float64(label: string): number {
    this.#scratch8(label);
    return scratch.getFloat64(0);
  }

  bigUint64(label: string): bigint {
    this.#scratch8(label);
    return scratch.getBigUint64(0);
  }

  /** The length of a delimited part. When it returns, the part is complete. */
  length(label: string): number {
    const length = this.varint(label);
    if (length > this.end - this.position) throw fieldError('fieldLength', label, 'is longer than the remaining bytes');
    return length;
  }

  /**
   * Moves to the given field, skipping unknown ones of a newer version. Fields come in ascending order, so a higher
   * number means that the field is absent. `after` is the number of the field declared before it.
   */
  seek(number: number, wire: WireType, after: number, label: string): boolean {
    let last = after;
    while (this.position < this.end) {
      const start = this.position;
      const key = this.varint(label);
      const found = key >>> 2;
      if (found > number) {
        this.position = start;
        return false;
      }
      checkOrder(found, last, key, label);
      if (found === number) {
        if ((key & 3) !== wire) throw fieldError('wireType', label, 'has another wire type than declared');
        return true;
      }
      this.#skip(key & 3, label);
      last = found;
    }
    return false;
  }

  /** Skips fields that a newer version added after the last declared one. */
  skipUnknown(after: number, label: string): void {
    let last = after;
    while (this.position < this.end) {
      const key = this.varint(label);
      checkOrder(key >>> 2, last, key, label);
      this.#skip(key & 3, label);
      last = key >>> 2;
    }
  }

  #skip(wire: number, label: string): void {
    if (wire === wireTypes.varint) this.#skipVarint(label);
    else if (wire === wireTypes.fixed64) this.#advance(8, label);
    else if (wire === wireTypes.delimited) this.#advance(this.length(label), label);
    else throw fieldError('wireType', label, 'is followed by a field of unknown wire type');
  }

  #advance(count: number, label: string): void {
    if (count > this.end - this.position) throw fieldError('truncated', label, 'is truncated');
    this.position += count;
  }

  /** Up to ten bytes, so that a newer version may use 64 bits in an unknown field. */
  #skipVarint(label: string): void {
    for (let i = 0; i < 10; i++) {
      if (this.position >= this.end) throw fieldError('truncated', label, 'is truncated');
      if ((this.bytes[this.position++] as number) < 0x80) return;
    }
    throw fieldError('varint', label, 'is a number of more than ten bytes');
  }

  #longVarint(label: string): number {
    let value = 0;
    let factor = 1;
    for (let i = 0; i < 8; i++) {
      if (this.position >= this.end) throw fieldError('truncated', label, 'is truncated');
      const byte = this.bytes[this.position++] as number;
      value += (byte & 0x7f) * factor;
      factor *= 128;
      if (byte >= 0x80) continue;
      if (byte === 0) throw fieldError('varint', label, 'is a number with redundant bytes');
      if (value > Number.MAX_SAFE_INTEGER) throw fieldError('varint', label, 'is a number beyond 2^53 - 1');
      return value;
    }
    throw fieldError('varint', label, 'is a number of more than eight bytes');
  }

  #scratch8(label: string): void {
    const at = this.position;
    this.#advance(8, label);
    for (let i = 0; i < 8; i++) scratchBytes[i] = this.bytes[at + i] as number;
  }
}

export function fieldError(reason: RejectionReason, label: string, what: string): DecodeError {
  return decodeError(reason, `${label} ${what}`);
}

function checkOrder(found: number, last: number, key: number, label: string): void {
  if (found > last && key <= fieldNumberMax * 4 + 3) return;
  if (found === 0 || key > fieldNumberMax * 4 + 3)
    throw fieldError('fieldNumber', label, 'is next to a field with an invalid number');
  if (found === last) throw fieldError('duplicateField', label, 'is next to a duplicate field');
  throw fieldError('fieldOrder', label, 'is next to fields out of order');
}
