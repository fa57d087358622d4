/**
 * Seeded pseudo-random streams (sfc32), forked by label: one more draw in one machine changes nothing in the others, so
 * a failing seed stays the same failure. Never used for keys, salts or ids: those come from the operating system (io/).
 */
import { assert } from './assert.ts';

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;
  readonly #seed: string;

  constructor(seed: string) {
    this.#seed = seed;
    [this.#a, this.#b, this.#c] = [hash(seed, 1), hash(seed, 2), hash(seed, 3)];
    for (let i = 0; i < 12; i++) this.uint32();
  }

  /** An independent stream: the same seed and label always give the same stream, whatever was drawn before. */
  fork(label: string): Random {
    return new Random(`${this.#seed}/${label}`);
  }

  uint32(): number {
    const t = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    return t >>> 0;
  }

  /** In [0, 1). */
  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    assert(bound > 0 && bound <= 2 ** 32, 'Random.below needs a bound in 1..2^32');
    return Math.floor(this.fraction() * bound);
  }

  /** A number in [from, to). */
  between(from: number, to: number): number {
    return from + this.fraction() * (to - from);
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(items: readonly T[]): T {
    assert(items.length > 0, 'Random.pick needs at least one item');
    return items[this.below(items.length)] as T;
  }

  /** A new array in random order. */
  shuffled<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }

  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.uint32() & 0xff);
  }
}

/** FNV-1a with a final mix; enough to spread labels over seeds. */
function hash(text: string, salt: number): number {
  let h = 0x811c9dc5 ^ salt;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
