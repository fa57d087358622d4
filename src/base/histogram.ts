/**
 * A log-linear histogram of durations (1 us to 1 h, error below 1 %) that merges exactly and in any order. The
 * percentile over many workers is that of the whole, not a mean of percentiles. Compared with hdr-histogram-js
 * (decision 18): it keeps no exact sum and inflates what it decodes without a bound.
 *
 * Smaller values count as 1 us, larger ones as 1 h; count, minimum, maximum and sum are exact within that range.
 */
import { assert } from './assert.ts';
import { RemusterError } from './errors.ts';

export const histogramMinUs = 1;
export const histogramMaxUs = 3_600_000_000;

const stepsPerOctave = 64;
/** Below 2 x 64 us each microsecond has its own bucket; above, each octave has 64 buckets. */
const linearUs = 2 * stepsPerOctave;
const bucketCount = bucketOf(histogramMaxUs) + 1;
/** The first values are kept one by one: a small job records no more, and buckets would be most of its cost. */
const samplesMax = 8;

export class Histogram {
  /** Allocated when `#samples` is full. */
  #counts: Float64Array | undefined;
  /** Until then, the bucket of each value. */
  #samples: number[] = [];
  #count = 0;
  #sumUs = 0n;
  /** Adding to a bigint per value is slow, so values are summed here and moved over before precision is lost. */
  #sumUsRecent = 0;
  #minUs = histogramMaxUs;
  #maxUs = histogramMinUs;

  record(valueUs: number): void {
    assert(!Number.isNaN(valueUs), 'a duration is a number');
    const us = Math.min(histogramMaxUs, Math.max(histogramMinUs, Math.round(valueUs)));
    const bucket = bucketOf(us);
    if (this.#counts === undefined && this.#count < samplesMax) this.#samples.push(bucket);
    else addTo(this.#counts ?? this.#buckets(), bucket, 1);
    this.#count += 1;
    this.#sumUsRecent += us;
    if (this.#sumUsRecent > 2 ** 52) this.#moveRecentSum();
    if (us < this.#minUs) this.#minUs = us;
    if (us > this.#maxUs) this.#maxUs = us;
  }

  /** Commutative and associative, exact to the last bit. */
  merge(other: Histogram): void {
    const counts = this.#buckets();
    if (other.#counts === undefined) for (const bucket of other.#samples) addTo(counts, bucket, 1);
    else for (let i = 0; i < bucketCount; i++) counts[i] = (counts[i] as number) + (other.#counts[i] as number);
    this.#count += other.#count;
    this.#moveRecentSum();
    this.#sumUs += other.#sumUs + BigInt(other.#sumUsRecent);
    this.#minUs = Math.min(this.#minUs, other.#minUs);
    this.#maxUs = Math.max(this.#maxUs, other.#maxUs);
  }

  get count(): number {
    return this.#count;
  }

  get minUs(): number {
    return this.#count === 0 ? 0 : this.#minUs;
  }

  get maxUs(): number {
    return this.#count === 0 ? 0 : this.#maxUs;
  }

  get sumUs(): bigint {
    return this.#sumUs + BigInt(this.#sumUsRecent);
  }

  get meanUs(): number {
    return this.#count === 0 ? 0 : Number(this.sumUs) / this.#count;
  }

  /** The nearest-rank quantile; 0 when empty. */
  quantileUs(quantile: number): number {
    assert(quantile >= 0 && quantile <= 1, 'a quantile is between 0 and 1');
    const rank = Math.max(1, Math.ceil(quantile * this.#count));
    const counts = this.#buckets();
    let seen = 0;
    for (let i = 0; i < bucketCount; i++) {
      seen += counts[i] as number;
      if (seen >= rank) return Math.min(this.#maxUs, Math.max(this.#minUs, middleOf(i)));
    }
    return 0;
  }

  /** The non-empty buckets as [bucket, count, bucket, count ...], for a message. */
  toSparse(): SparseHistogram {
    const buckets = this.#counts === undefined ? sparseOf(this.#samples) : pairsOf(this.#counts);
    return { buckets, sumUs: this.sumUs, minUs: this.minUs, maxUs: this.maxUs };
  }

  static fromSparse(sparse: SparseHistogram): Histogram {
    const histogram = new Histogram();
    const counts = histogram.#buckets();
    for (let i = 0; i + 1 < sparse.buckets.length; i += 2) {
      const [bucket, count] = [sparse.buckets[i] as number, sparse.buckets[i + 1] as number];
      if (
        !(Number.isInteger(bucket) && bucket >= 0 && bucket < bucketCount && Number.isSafeInteger(count) && count > 0)
      ) {
        throw new RemusterError('MALFORMED', 'a histogram has a bucket or count out of range');
      }
      addTo(counts, bucket, count);
      histogram.#count += count;
    }
    if (histogram.#count === 0) return histogram;
    if (
      !(
        sparse.minUs >= histogramMinUs &&
        sparse.minUs <= sparse.maxUs &&
        sparse.maxUs <= histogramMaxUs &&
        sparse.sumUs > 0n
      )
    ) {
      throw new RemusterError('MALFORMED', 'a histogram has a sum, minimum or maximum out of range');
    }
    histogram.#sumUs = sparse.sumUs;
    histogram.#minUs = sparse.minUs;
    histogram.#maxUs = sparse.maxUs;
    return histogram;
  }

  #buckets(): Float64Array {
    if (this.#counts !== undefined) return this.#counts;
    this.#counts = new Float64Array(bucketCount);
    for (const bucket of this.#samples) addTo(this.#counts, bucket, 1);
    this.#samples = [];
    return this.#counts;
  }

  #moveRecentSum(): void {
    this.#sumUs += BigInt(this.#sumUsRecent);
    this.#sumUsRecent = 0;
  }
}

export type SparseHistogram = {
  readonly buckets: readonly number[];
  readonly sumUs: bigint;
  readonly minUs: number;
  readonly maxUs: number;
};

function addTo(counts: Float64Array, bucket: number, count: number): void {
  counts[bucket] = (counts[bucket] as number) + count;
}

function pairsOf(counts: Float64Array): number[] {
  const pairs: number[] = [];
  for (let i = 0; i < bucketCount; i++) {
    const count = counts[i] as number;
    if (count > 0) pairs.push(i, count);
  }
  return pairs;
}

function sparseOf(samples: readonly number[]): number[] {
  const pairs: number[] = [];
  for (const bucket of samples.toSorted((a, b) => a - b)) {
    if (pairs.at(-2) === bucket) pairs[pairs.length - 1] = (pairs.at(-1) as number) + 1;
    else pairs.push(bucket, 1);
  }
  return pairs;
}

function bucketOf(us: number): number {
  if (us < linearUs) return us;
  const octave = 31 - Math.clz32(Math.floor(us / stepsPerOctave));
  return octave * stepsPerOctave + Math.floor(us / 2 ** octave);
}

/** The middle of the values in a bucket. */
function middleOf(bucket: number): number {
  if (bucket < linearUs) return bucket;
  const octave = Math.floor(bucket / stepsPerOctave) - 1;
  const firstUs = (bucket - octave * stepsPerOctave) * 2 ** octave;
  return firstUs + (2 ** octave - 1) / 2;
}
