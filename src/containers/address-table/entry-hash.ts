/**
 * An incremental hash of a set of entries, independent of their order, to compare tables: each entry is mixed into two
 * 32-bit words, and the words of all entries are added. It detects accidents, not attackers.
 */

export class EntrySetHash {
  #low = 0;
  #high = 0;

  add(a: number, b: number, c: number, version: number): void {
    this.#low = (this.#low + mixEntry(lowSalt, a, b, c, version)) | 0;
    this.#high = (this.#high + mixEntry(highSalt, a, b, c, version)) | 0;
  }

  remove(a: number, b: number, c: number, version: number): void {
    this.#low = (this.#low - mixEntry(lowSalt, a, b, c, version)) | 0;
    this.#high = (this.#high - mixEntry(highSalt, a, b, c, version)) | 0;
  }

  clear(): void {
    this.#low = 0;
    this.#high = 0;
  }

  /** The two words, high before low. */
  get words(): readonly [number, number] {
    return [this.#high >>> 0, this.#low >>> 0];
  }
}

/** Hashes a string to one word, equal on every node. */
export function hashText(text: string): number {
  let word = lowSalt;
  for (let i = 0; i < text.length; i++) word = step(word, text.charCodeAt(i));
  return finalize(word) | 0;
}

const lowSalt = 0x2545_f491;
const highSalt = 0x6c07_8965;

function mixEntry(salt: number, a: number, b: number, c: number, version: number): number {
  let word = step(step(step(salt, a), b), c);
  word = step(step(word, version | 0), Math.floor(version / 0x1_0000_0000));
  return finalize(word);
}

function step(word: number, value: number): number {
  const scrambled = Math.imul(value, 0xcc9e_2d51);
  const next = word ^ Math.imul((scrambled << 15) | (scrambled >>> 17), 0x1b87_3593);
  return (Math.imul((next << 13) | (next >>> 19), 5) + 0xe654_6b64) | 0;
}

function finalize(word: number): number {
  let out = Math.imul(word ^ (word >>> 16), 0x85eb_ca6b);
  out = Math.imul(out ^ (out >>> 13), 0xc2b2_ae35);
  return out ^ (out >>> 16);
}
