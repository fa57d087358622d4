/**
 * A small direct-mapped table of recently used short ASCII strings and their bytes. Bounded; holds only strings that
 * were validated. One string per slot, and only some of the misses replace it, so many strings that share a slot cost
 * little.
 */

const slotsMax = 256;
export const internedLengthMax = 63;
/** A power of two: one of so many misses replaces the string of a slot. */
const missesPerEviction = 8;

const decoder = new TextDecoder();

export class InternTable {
  readonly #texts: (string | undefined)[] = Array.from({ length: slotsMax });
  /** In the same slots: a length byte, then the text. */
  readonly #bytes: Uint8Array[] = Array.from({ length: slotsMax }, () => new Uint8Array(0));
  readonly #misses = new Uint8Array(slotsMax);

  /** Length and bytes of an interned text, ready to be copied. */
  encodedForm(text: string): Uint8Array | undefined {
    const slot = slotOfText(text);
    return this.#texts[slot] === text ? this.#bytes[slot] : undefined;
  }

  /** The interned text with these bytes. */
  lookup(bytes: Uint8Array, start: number, length: number): string | undefined {
    const slot = slotOf(length, bytes[start]!, bytes[start + (length >> 1)]!, bytes[start + length - 1]!);
    const interned = this.#bytes[slot]!;
    if (interned[0] !== length) return undefined;
    for (let i = 0; i < length; i++) if (interned[i + 1] !== bytes[start + i]) return undefined;
    return this.#texts[slot];
  }

  /** Interns an encoded text: ASCII of 1 to `internedLengthMax` characters. */
  addEncoded(text: string): void {
    const slot = slotOfText(text);
    if (this.#keepsCurrent(slot)) return;
    this.#texts[slot] = text;
    this.#bytes[slot] = bytesOf(text);
  }

  /** Interns a decoded text, and returns it in a form that is fast to compare. */
  addDecoded(text: string): string {
    const slot = slotOfText(text);
    if (this.#keepsCurrent(slot)) return text;
    const bytes = bytesOf(text);
    // A concatenated string is a rope in V8 and slow to compare; a decoded one is flat.
    const interned = decoder.decode(bytes.subarray(1));
    this.#texts[slot] = interned;
    this.#bytes[slot] = bytes;
    return interned;
  }

  #keepsCurrent(slot: number): boolean {
    if (this.#texts[slot] === undefined) return false;
    const misses = this.#misses[slot]! + 1;
    this.#misses[slot] = misses;
    return misses % missesPerEviction !== 0;
  }
}

function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(1 + text.length);
  bytes[0] = text.length;
  for (let i = 0; i < text.length; i++) bytes[i + 1] = text.charCodeAt(i);
  return bytes;
}

function slotOfText(text: string): number {
  const { length } = text;
  return slotOf(length, text.charCodeAt(0), text.charCodeAt(length >> 1), text.charCodeAt(length - 1));
}

function slotOf(length: number, first: number, middle: number, last: number): number {
  return (length * 31 + first * 7 + middle * 13 + last) & (slotsMax - 1);
}
