import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isRemusterError } from './errors.ts';
import { Histogram, histogramMaxUs, histogramMinUs } from './histogram.ts';

const durationUs = fc.oneof(
  fc.integer({ min: 1, max: 1000 }),
  fc.integer({ min: histogramMinUs, max: histogramMaxUs }),
  fc.double({ min: 0.1, max: histogramMaxUs, noNaN: true }),
);

function filled(values: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const value of values) histogram.record(value);
  return histogram;
}

describe('histogram', () => {
  it('gives the same result for values that are kept one by one, counted or merged', () => {
    fc.assert(
      fc.property(fc.array(durationUs, { maxLength: 20 }), (values) => {
        const all = filled(values);
        const counted = filled(values);
        counted.merge(new Histogram());
        const merged = new Histogram();
        for (const value of values) merged.merge(filled([value]));
        for (const other of [counted, merged, Histogram.fromSparse(all.toSparse())])
          assert.deepEqual(other.toSparse(), all.toSparse());
      }),
    );
  });

  it('reads any value from 1 us to 1 h back within 1 %', () => {
    fc.assert(
      fc.property(fc.integer({ min: histogramMinUs, max: histogramMaxUs }), (us) => {
        // A neighbour on each side keeps the exact minimum and maximum from hiding the error of the bucket.
        const histogram = filled([histogramMinUs, us, histogramMaxUs]);
        assert.ok(Math.abs(histogram.quantileUs(0.5) - us) <= us * 0.01, `${us} read as ${histogram.quantileUs(0.5)}`);
      }),
      { numRuns: 2000 },
    );
  });

  it('gives the nearest-rank quantile of the whole, within 1 %', () => {
    fc.assert(
      fc.property(
        fc.array(durationUs, { minLength: 1, maxLength: 300 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (values, share) => {
          const sorted = values
            .map((v) => Math.min(histogramMaxUs, Math.max(1, Math.round(v))))
            .toSorted((a, b) => a - b);
          const exact = sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] as number;
          const read = filled(values).quantileUs(share);
          assert.ok(Math.abs(read - exact) <= exact * 0.01, `${read} for ${exact}`);
        },
      ),
    );
  });

  it('merges exactly, in any order and grouping', () => {
    fc.assert(
      fc.property(fc.array(fc.array(durationUs, { maxLength: 50 }), { maxLength: 6 }), (parts) => {
        const forwards = new Histogram();
        for (const part of parts) forwards.merge(filled(part));
        const backwards = new Histogram();
        for (const part of parts.toReversed()) backwards.merge(filled(part));
        const whole = filled(parts.flat());
        assert.deepEqual(forwards.toSparse(), whole.toSparse());
        assert.deepEqual(backwards.toSparse(), whole.toSparse());
      }),
    );
  });

  it('survives its sparse form without loss', () => {
    fc.assert(
      fc.property(fc.array(durationUs, { maxLength: 100 }), (values) => {
        const histogram = filled(values);
        const decoded = Histogram.fromSparse(histogram.toSparse());
        assert.deepEqual(decoded.toSparse(), histogram.toSparse());
        assert.equal(decoded.count, values.length);
      }),
    );
  });

  it('keeps the sum exact beyond 2^53', () => {
    const histogram = new Histogram();
    const times = 3_000_000;
    for (let i = 0; i < times; i++) histogram.record(histogramMaxUs - 1);
    assert.equal(histogram.sumUs, BigInt(times) * BigInt(histogramMaxUs - 1));
  });

  it('is all zero when empty, and clamps what is out of range', () => {
    const histogram = new Histogram();
    assert.deepEqual([histogram.quantileUs(0.99), histogram.minUs, histogram.maxUs, histogram.meanUs], [0, 0, 0, 0]);
    histogram.record(-5);
    histogram.record(1e12);
    assert.deepEqual([histogram.minUs, histogram.maxUs], [histogramMinUs, histogramMaxUs]);
  });

  it('rejects impossible buckets, counts and bounds', () => {
    for (const buckets of [
      [-1, 1],
      [1e9, 1],
      [0.5, 1],
      [3, 0],
      [3, -1],
      [3, Number.NaN],
    ]) {
      const sparse = { buckets, sumUs: 3n, minUs: 1, maxUs: 3 };
      assert.throws(
        () => Histogram.fromSparse(sparse),
        (error) => isRemusterError(error, 'MALFORMED'),
      );
    }
    for (const ends of [{ minUs: 0 }, { minUs: 9 }, { maxUs: 1e10 }, { sumUs: -1n }]) {
      const sparse = { buckets: [3, 1], sumUs: 3n, minUs: 3, maxUs: 3, ...ends };
      assert.throws(
        () => Histogram.fromSparse(sparse),
        (error) => isRemusterError(error, 'MALFORMED'),
      );
    }
  });
});
