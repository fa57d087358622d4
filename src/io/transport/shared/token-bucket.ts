/** A token bucket. Time is an argument; the tokens never fall below zero. */
import { assert } from '../../../base/assert.ts';

export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #atMs: number;

  constructor(perSecond: number, burst: number, nowMs: number) {
    assert(perSecond > 0 && burst > 0, 'a token bucket needs a rate and a burst');
    this.#perMs = perSecond / 1_000;
    this.#burst = burst;
    this.#tokens = burst;
    this.#atMs = nowMs;
  }

  take(nowMs: number, count = 1): boolean {
    if (nowMs > this.#atMs) {
      this.#tokens = Math.min(this.#burst, this.#tokens + (nowMs - this.#atMs) * this.#perMs);
      this.#atMs = nowMs;
    }
    if (this.#tokens < count) return false;
    this.#tokens -= count;
    return true;
  }
}
