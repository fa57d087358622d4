/**
 * The counters that were received in one session, as a sliding window. Checking and marking are separate, because a
 * counter is marked only after its message is authenticated: otherwise a forger could use up the sender's counters.
 */
import { assert } from '../../../base/assert.ts';

export const replayWindowBits = 1_024;
const words = replayWindowBits / 32;

export class ReplayWindow {
  /** Bit (counter mod 1024) of the counters in (#highest - 1024, #highest]. */
  readonly #bits = new Uint32Array(words);
  #highest: number;

  /** Counters below `floor` are never accepted: they may have been received before this window existed. */
  constructor(floor = 0) {
    this.#highest = floor - 1;
    this.#bits.fill(0xffff_ffff);
  }

  check(counter: number): 'fresh' | 'replayed' | 'tooOld' {
    if (counter > this.#highest) return 'fresh';
    if (counter <= this.#highest - replayWindowBits) return 'tooOld';
    return this.#has(counter) ? 'replayed' : 'fresh';
  }

  mark(counter: number): void {
    assert(this.check(counter) === 'fresh', 'a counter is marked once');
    if (counter > this.#highest) this.#advance(counter);
    this.#bits[(counter % replayWindowBits) >>> 5]! |= 1 << (counter & 31);
  }

  #has(counter: number): boolean {
    return (this.#bits[(counter % replayWindowBits) >>> 5]! & (1 << (counter & 31))) !== 0;
  }

  #advance(counter: number): void {
    if (counter - this.#highest >= replayWindowBits) {
      this.#bits.fill(0);
    } else {
      for (let skipped = this.#highest + 1; skipped < counter; skipped++) {
        this.#bits[(skipped % replayWindowBits) >>> 5]! &= ~(1 << (skipped & 31));
      }
      this.#bits[(counter % replayWindowBits) >>> 5]! &= ~(1 << (counter & 31));
    }
    this.#highest = counter;
  }
}
