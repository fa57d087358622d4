import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { jobLimits } from '../../jobs/limits.ts';
import { decodeFailures } from '../../jobs/report/item-failures.ts';
import { FailureCollector } from './failure-collector.ts';

function decoded(collector: FailureCollector): NonNullable<ReturnType<typeof decodeFailures>> {
  const read = decodeFailures(collector.encode() ?? assert.fail('nothing was encoded'));
  assert.ok(read);
  return read;
}

describe('the failed items of a unit', () => {
  it('are kept with their places as runs', () => {
    const collector = new FailureCollector(10, 6, true);
    assert.equal(collector.encode(), undefined);
    for (const place of [0, 1, 4]) collector.add(place, new TypeError(`item ${place}`));
    const { runs, items } = decoded(collector);
    assert.deepEqual(runs, [
      { from: 10, count: 2 },
      { from: 14, count: 1 },
    ]);
    assert.deepEqual(
      items.map(({ index, error }) => `${index} ${error.name} ${error.message}`),
      ['10 TypeError item 0', '11 TypeError item 1', '14 TypeError item 4'],
    );
  });

  it('lose their places, and not their errors, when they are too many to be listed', () => {
    const count = jobLimits.failuresBytesMax;
    const collector = new FailureCollector(0, count, true);
    for (let place = 0; place < count; place += 2) collector.add(place, 'no');
    const { runs, items } = decoded(collector);
    assert.deepEqual([runs.length, items.length], [0, 1_000]);
  });
});
