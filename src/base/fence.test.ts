import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fenceOf, fenceParts, parseFence, termMax } from './fence.ts';

describe('fence', () => {
  it('orders like the pair of term and index, equal and lower pairs included', () => {
    const pairs: readonly (readonly [number, number])[] = [
      [1, 0],
      [1, 1],
      [1, 2 ** 40 - 1],
      [2, 0],
      [termMax, 5],
    ];
    let compared = 0;
    for (const [i, a] of pairs.entries()) {
      for (const [j, b] of pairs.entries()) {
        assert.equal(fenceOf(...a) < fenceOf(...b), i < j, `${a.join('/')} against ${b.join('/')}`);
        compared += 1;
      }
    }
    assert.ok(compared >= 24);
  });

  it('survives the round trip through its parts and through text', () => {
    const fence = fenceOf(7, 123_456_789_012);
    assert.deepEqual(fenceParts(fence), { term: 7, index: 123_456_789_012 });
    assert.equal(parseFence(fence.toString()), fence);
    for (const text of ['', '-1', '1.5', '0x1', '9'.repeat(20), '1e3'])
      assert.throws(() => parseFence(text), { code: 'BAD_ARGUMENT' });
  });

  it('rejects terms and indexes that are out of bounds', () => {
    assert.throws(() => fenceOf(termMax + 1, 0), /out of bounds/);
    assert.throws(() => fenceOf(1, 2 ** 40), /out of bounds/);
    assert.throws(() => fenceOf(-1, 0), /out of bounds/);
  });
});
