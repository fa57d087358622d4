/**
 * Zstandard off the loop, with a bomb guard: the announced raw size is checked against limit, ratio and budget before
 * inflating.
 */
import { zstdCompress, zstdDecompress } from 'node:zlib';

import type { TransportLimits } from '../shared/transport-limits.ts';
import { ByteBudget } from './reassembly.ts';

/** Less gain than this is not worth the work of the other side. */
const worthwhileRatio = 1.1;

export class Compression {
  readonly #limits: TransportLimits;
  readonly #budget: ByteBudget;

  constructor(limits: TransportLimits) {
    this.#limits = limits;
    this.#budget = new ByteBudget(limits.decompressTotalBytesMax);
  }

  /** The compressed body, or undefined when the body should travel as it is. */
  compress(body: Uint8Array, done: (compressed: Uint8Array | undefined) => void): void {
    zstdCompress(body, (error, compressed) => {
      const ratio = error === null ? body.length / compressed.length : 0;
      done(ratio >= worthwhileRatio && ratio <= this.#limits.decompressRatioMax ? compressed : undefined);
    });
  }

  /** The raw body, or why it is refused. `tooMuch` is not the sender's fault and may be retried. */
  decompress(
    body: Uint8Array,
    rawBytes: number,
    done: (raw: Uint8Array | 'tooLarge' | 'tooMuch' | 'malformed') => void,
  ): void {
    const { decompressedBytesMax, decompressRatioMax } = this.#limits;
    if (rawBytes > decompressedBytesMax || rawBytes > body.length * decompressRatioMax) {
      queueMicrotask(() => done('tooLarge'));
    } else if (rawBytes === 0 || !this.#budget.take(rawBytes)) {
      queueMicrotask(() => done(rawBytes === 0 ? 'malformed' : 'tooMuch'));
    } else {
      zstdDecompress(body, { maxOutputLength: rawBytes }, (error, raw) => {
        this.#budget.release(rawBytes);
        done(error === null && raw.length === rawBytes ? raw : 'malformed');
      });
    }
  }
}
