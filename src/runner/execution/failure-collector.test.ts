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

describe('the collected failures of a unit', () => {
  it('have errors, and indexes as runs', () => {
    const collector = new FailureCollector(10, 6, true);
    assert.equal(collector.encode(), undefined);
    for (const offset of [0, 1, 4]) collector.add(offset, new TypeError(`item ${offset}`));
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

  it('lose their runs, and not their errors, when there are too many runs', () => {
    const count = jobLimits.failuresBytesMax;
    const collector = new FailureCollector(0, count, true);
    for (let offset = 0; offset < count; offset += 2) collector.add(offset, 'no');
    const { runs, items } = decoded(collector);
    assert.deepEqual([runs.length, items.length], [0, 1_000]);
  });
});
