import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';

import { AssertionFailed } from '../../base/assert.ts';
import { isRemusterError } from '../../base/errors.ts';
import { crc32 } from '../../base/crc.ts';
import { DurabilityTracker } from './durability-tracker.ts';
import { decodeLogEntry, newLogEntry } from './log-entry.ts';
import { ReplicatedLog } from './replicated-log.ts';

function logOf(...terms: readonly number[]): ReplicatedLog {
  const log = new ReplicatedLog({ index: 0, term: 0 }, []);
  for (const [i, term] of terms.entries()) log.append(newLogEntry(i + 1, term, 'command', Uint8Array.of(i), undefined));
  return log;
}

describe('a log entry', () => {
  test('survives encoding and decoding', () => {
    for (const kind of ['noop', 'command', 'configuration'] as const) {
      const entry = newLogEntry(7, 2 ** 24 - 1, kind, Uint8Array.of(1, 2, 3), undefined);
      assert.deepEqual(decodeLogEntry(7, entry.encoded), entry);
    }
  });

  test('is rejected without a head or with an unknown kind', () => {
    for (const record of [[], [1, 0, 0, 0], [9, 0, 0, 0, 0]]) {
      assert.throws(
        () => decodeLogEntry(1, Uint8Array.from(record)),
        (error) => isRemusterError(error, 'MALFORMED'),
      );
    }
  });
});

describe('the log', () => {
  test('returns terms by index, and none beyond its ends', () => {
    const log = logOf(1, 1, 2);
    assert.deepEqual(
      [0, 1, 2, 3, 4].map((index) => log.termAt(index)),
      [0, 1, 1, 2, undefined],
    );
    assert.deepEqual([log.lastIndex, log.lastTerm], [3, 2]);
  });

  test('accepts only the next entry', () => {
    const log = logOf(1, 2);
    assert.throws(() => log.append(newLogEntry(4, 2, 'noop', new Uint8Array(0), undefined)), AssertionFailed);
    assert.throws(() => log.append(newLogEntry(3, 1, 'noop', new Uint8Array(0), undefined)), AssertionFailed);
  });

  test('is truncated at its end and compacted at its start', () => {
    const log = logOf(1, 1, 2, 3);
    assert.deepEqual(
      log.truncate(4).map(({ index }) => index),
      [4],
    );
    log.compact(2);
    assert.deepEqual(log.base, { index: 2, term: 1 });
    assert.deepEqual([log.termAt(1), log.termAt(2), log.termAt(3), log.lastIndex], [undefined, 1, 2, 3]);
    assert.throws(() => log.truncate(2), AssertionFailed);
    assert.throws(() => log.compact(9), AssertionFailed);
    log.reset({ index: 20, term: 5 });
    assert.deepEqual([log.lastIndex, log.lastTerm], [20, 5]);
  });

  test('returns slices within bounds, with at least one entry', () => {
    const log = logOf(1, 1, 1, 1);
    const indexes = (bytes: number, count: number): readonly number[] =>
      log.slice(2, bytes, count).map(({ index }) => index);
    assert.deepEqual(indexes(1, 9), [2]);
    assert.deepEqual(indexes(12, 9), [2, 3]);
    assert.deepEqual(indexes(999, 2), [2, 3]);
    assert.deepEqual(log.slice(5, 999, 9), []);
  });

  test('finds the latest position where two logs can match', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(3), { maxLength: 20 }), fc.nat(25), fc.nat(8), (steps, index, term) => {
        let last = 1;
        const terms = steps.map((step) => (last += step));
        const log = logOf(...terms);
        const found = log.lastNotAfter(index, term);
        let expected = 0;
        for (let at = 1; at <= Math.min(index, terms.length); at++)
          if ((terms[at - 1] as number) <= term) expected = at;
        assert.equal(found.index, expected);
        assert.equal(found.term, log.termAt(expected));
      }),
    );
  });
});

describe('the durability tracker', () => {
  test('advances as writes complete, in order', () => {
    const durability = new DurabilityTracker(3, 1);
    durability.submitted(5, 1);
    durability.submitted(6, 2);
    assert.deepEqual([durability.index, durability.term, durability.hasPending], [3, 1, true]);
    durability.completed();
    assert.deepEqual([durability.index, durability.term], [5, 1]);
    durability.completed();
    assert.deepEqual([durability.index, durability.term, durability.hasPending], [6, 2, false]);
    assert.throws(() => durability.completed(), AssertionFailed);
  });

  test('does not count entries that were truncated while they were written', () => {
    const durability = new DurabilityTracker(3, 1);
    durability.submitted(10, 1);
    durability.truncated(7);
    durability.submitted(8, 2);
    durability.completed();
    assert.equal(durability.index, 7);
    durability.completed();
    assert.equal(durability.index, 8);
    durability.truncated(2);
    assert.equal(durability.index, 2);
  });
});

test('crc32 of parts equals crc32 of the whole', () => {
  const text = new TextEncoder().encode('123456789');
  assert.equal(crc32(text), 0xcbf4_3926);
  assert.equal(crc32(text.subarray(4), crc32(text.subarray(0, 4))), 0xcbf4_3926);
});
