/**
 * Zstandard compression off the event loop, with a guard against compression bombs: the announced raw size is checked
 * against limit, ratio and budget before a body is decompressed.
 */
import { zstdCompress, zstdDecompress } from 'node:zlib';

import type { TransportLimits } from '../shared/transport-limits.ts';
import { ByteBudget } from './reassembly.ts';

/** A smaller gain is not worth the work of the receiver. */
const worthwhileRatio = 1.1;

export class Compression {
  readonly #limits: TransportLimits;
  readonly #budget: ByteBudget;

  constructor(limits: TransportLimits) {
    this.#limits = limits;
    this.#budget = new ByteBudget(limits.decompressTotalBytesMax);
  }

  /** Returns the compressed body, or undefined if the body should be sent as it is. */
  compress(body: Uint8Array, done: (compressed: Uint8Array | undefined) => void): void {
    zstdCompress(body, (error, compressed) => {
      const ratio = error === null ? body.length / compressed.length : 0;
      done(ratio >= worthwhileRatio && ratio <= this.#limits.decompressRatioMax ? compressed : undefined);
    });
  }

  /** Returns the raw body, or why it is refused. `overBudget` is not an error of the sender and can be retried. */
  decompress(
    body: Uint8Array,
    rawBytes: number,
    done: (raw: Uint8Array | 'tooLarge' | 'overBudget' | 'malformed') => void,
  ): void {
    const { decompressedBytesMax, decompressRatioMax } = this.#limits;
    if (rawBytes > decompressedBytesMax || rawBytes > body.length * decompressRatioMax) {
      queueMicrotask(() => done('tooLarge'));
    } else if (rawBytes === 0 || !this.#budget.take(rawBytes)) {
      queueMicrotask(() => done(rawBytes === 0 ? 'malformed' : 'overBudget'));
    } else {
      zstdDecompress(body, { maxOutputLength: rawBytes }, (error, raw) => {
        this.#budget.release(rawBytes);
        done(error === null && raw.length === rawBytes ? raw : 'malformed');
      });
    }
  }
}
