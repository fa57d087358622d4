/**
 * A small direct-mapped table of recently used short ASCII strings and their bytes. Bounded; holds only strings that
 * were validated. One string per slot, and only some of the misses replace it, so many strings that share a slot cost
 * little.
 */

const placesMax = 256;
export const internedLengthMax = 63;
/** A power of two: one of so many newcomers takes a place that is taken. */
const missesPerEviction = 8;

const decoder = new TextDecoder();

export class InternTable {
  readonly #texts: (string | undefined)[] = Array.from({ length: placesMax });
  /** In the same places: a byte with the length, then the text. */
  readonly #bytes: Uint8Array[] = Array.from({ length: placesMax }, () => new Uint8Array(0));
  readonly #newcomers = new Uint8Array(placesMax);

  /** Length and bytes of a text that is known, ready to be copied. */
  encodedForm(text: string): Uint8Array | undefined {
    const place = placeOfText(text);
    return this.#texts[place] === text ? this.#bytes[place] : undefined;
  }

  /** The text that these bytes are, if it is known. */
  lookup(bytes: Uint8Array, start: number, length: number): string | undefined {
    const place = placeOf(length, bytes[start]!, bytes[start + (length >> 1)]!, bytes[start + length - 1]!);
    const known = this.#bytes[place]!;
    if (known[0] !== length) return undefined;
    for (let i = 0; i < length; i++) if (known[i + 1] !== bytes[start + i]) return undefined;
    return this.#texts[place];
  }

  /** ASCII of 1 to `internedLengthMax` characters that is being written. */
  addEncoded(text: string): void {
    const place = placeOfText(text);
    if (this.#isTaken(place)) return;
    this.#texts[place] = text;
    this.#bytes[place] = bytesOf(text);
  }

  /** The same of what was read; the result is the same text. */
  addDecoded(text: string): string {
    const place = placeOfText(text);
    if (this.#isTaken(place)) return text;
    const bytes = bytesOf(text);
    // Text that was put together of pieces is slow to compare; this one is of one piece.
    const known = decoder.decode(bytes.subarray(1));
    this.#texts[place] = known;
    this.#bytes[place] = bytes;
    return known;
  }

  #isTaken(place: number): boolean {
    if (this.#texts[place] === undefined) return false;
    const newcomers = this.#newcomers[place]! + 1;
    this.#newcomers[place] = newcomers;
    return newcomers % missesPerEviction !== 0;
  }
}

function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(1 + text.length);
  bytes[0] = text.length;
  for (let i = 0; i < text.length; i++) bytes[i + 1] = text.charCodeAt(i);
  return bytes;
}

function placeOfText(text: string): number {
  const { length } = text;
  return placeOf(length, text.charCodeAt(0), text.charCodeAt(length >> 1), text.charCodeAt(length - 1));
}

function placeOf(length: number, first: number, middle: number, last: number): number {
  return (length * 31 + first * 7 + middle * 13 + last) & (placesMax - 1);
}
