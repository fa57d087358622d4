/** The table "How a batch ends" of docs/guides/jobs.md. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BatchEnd, batchEnd } from './batch-end.ts';
import type { BatchFacts } from './workflow-facts.ts';

type Row = readonly [
  options: Pick<BatchFacts, 'onItemError' | 'maxFailures'>,
  thresholds: Readonly<Record<string, readonly string[]>>,
  counts: readonly [completed: number, failed: number],
  end: BatchEnd,
];

const rows: readonly Row[] = [
  // No failed item.
  [{}, {}, [10, 0], 'COMPLETED'],
  [{}, {}, [0, 0], 'COMPLETED'],
  [{ onItemError: 'stop' }, {}, [10, 0], 'COMPLETED'],
  [{ onItemError: 'continue' }, {}, [0, 0], 'COMPLETED'],
  // A threshold on `failed` decides alone; one on something else decides nothing here.
  [{}, { failed: ['rate<1%'] }, [0, 10], 'COMPLETED'],
  [{ onItemError: 'continue' }, { failed: ['count<1'] }, [5, 5], 'COMPLETED'],
  [{ maxFailures: 1 }, { failed: ['count<1'] }, [5, 5], 'COMPLETED'],
  [{}, { failed: [] }, [5, 5], 'FAILED'],
  [{}, { checks: ['rate>99%'] }, [5, 5], 'FAILED'],
  // Failures are tolerated, and at least one item completed.
  [{ maxFailures: 5 }, {}, [5, 5], 'PARTIAL'],
  [{ onItemError: 'fail', maxFailures: 5 }, {}, [1, 5], 'PARTIAL'],
  [{ onItemError: 'continue' }, {}, [1, 1_000], 'PARTIAL'],
  // Otherwise.
  [{}, {}, [9, 1], 'FAILED'],
  [{}, {}, [0, 10], 'FAILED'],
  [{ maxFailures: 4 }, {}, [5, 5], 'FAILED'],
  [{ maxFailures: 5 }, {}, [0, 5], 'FAILED'],
  [{ onItemError: 'continue' }, {}, [0, 10], 'FAILED'],
  [{ onItemError: 'stop' }, {}, [999, 1], 'FAILED'],
];

const facts = { firstOnly: false, concurrency: 1, unitItemsMax: 1, keepResults: true };

describe('the end of a batch', () => {
  for (const [options, thresholds, [completed, failed], end] of rows)
    it(`${JSON.stringify(options)} ${JSON.stringify(thresholds)} with ${completed} completed, ${failed} failed is ${end}`, () => {
      const batch = { ...facts, ...options };
      assert.equal(batchEnd({ batch, thresholds }, { completed, failed, isFound: false }), end);
    });

  it('is COMPLETED when the first success ended the batch, whatever failed before', () => {
    const batch = { ...facts, firstOnly: true };
    assert.equal(batchEnd({ batch, thresholds: {} }, { completed: 1, failed: 5, isFound: true }), 'COMPLETED');
    assert.equal(batchEnd({ batch, thresholds: {} }, { completed: 1, failed: 5, isFound: false }), 'FAILED');
  });

  it('is COMPLETED for a load test, whose failed iterations only thresholds evaluate', () => {
    assert.equal(batchEnd({ thresholds: {} }, { completed: 1, failed: 5, isFound: false }), 'COMPLETED');
  });
});
