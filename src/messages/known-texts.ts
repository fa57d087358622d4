/**
 * Short texts that were on the wire of late, with their bytes, each in a place that its bytes tell: the same few are
 * said again and again, such as who calls in each call and which method. To compare or to copy one costs less than to
 * check it and to make it anew. Only what has been checked is put here, and only ASCII; a newcomer takes the place of
 * whoever is there, so it is bounded.
 */

const placesMax = 256;
export const knownTextMax = 63;

export class KnownTexts {
  readonly #texts: (string | undefined)[] = Array.from({ length: placesMax });
  /** In the same places: a byte with the length, then the text. */
  readonly #bytes: Uint8Array[] = Array.from({ length: placesMax }, () => new Uint8Array(0));

  /** Length and bytes of a text that is known, ready to be copied. */
  written(text: string): Uint8Array | undefined {
    const place = placeOfText(text);
    return this.#texts[place] === text ? this.#bytes[place] : undefined;
  }

  /** The text that these bytes are, if it is known. */
  read(bytes: Uint8Array, start: number, length: number): string | undefined {
    const place = placeOf(length, bytes[start]!, bytes[start + (length >> 1)]!, bytes[start + length - 1]!);
    const known = this.#bytes[place]!;
    if (known[0] !== length) return undefined;
    for (let i = 0; i < length; i++) if (known[i + 1] !== bytes[start + i]) return undefined;
    return this.#texts[place];
  }

  /** For ASCII of 1 to `knownTextMax` characters; the result is the same text. */
  keep(text: string): string {
    const { length } = text;
    const bytes = new Uint8Array(1 + length);
    bytes[0] = length;
    for (let i = 0; i < length; i++) bytes[i + 1] = text.charCodeAt(i);
    const place = placeOfText(text);
    this.#texts[place] = text;
    this.#bytes[place] = bytes;
    return text;
  }
}

function placeOfText(text: string): number {
  const { length } = text;
  return placeOf(length, text.charCodeAt(0), text.charCodeAt(length >> 1), text.charCodeAt(length - 1));
}

function placeOf(length: number, first: number, middle: number, last: number): number {
  return (length * 31 + first * 7 + middle * 13 + last) & (placesMax - 1);
}
