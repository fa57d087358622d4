import assert from 'node:assert/strict';
import { test } from 'node:test';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import { decodeFailures, encodeFailures } from '../../report/item-failures.ts';
import { keptFailures } from './kept-failures.ts';

const items = Array.from({ length: 600 }, (_, index) => ({
  index,
  error: { name: 'Error', message: 'bad', at: 'a.ts:1' },
}));
const failures = encodeFailures({ runs: [{ from: 0, count: 600 }], items });
const facts = batchTestFacts('one');

test('a workflow lists 1,000 failed items and keeps the indexes of all', () => {
  const all = keptFailures({ facts, failuresListed: 0 }, { failures });
  assert.deepEqual([all?.count, all?.bytes, all?.sample], [600, failures, 'Error: bad (a.ts:1)']);
  const some = keptFailures({ facts, failuresListed: 600 }, { failures });
  assert.equal(some?.count, 400);
  const read = decodeFailures(some?.bytes ?? new Uint8Array());
  assert.deepEqual([read?.items.length, read?.runs], [400, [{ from: 0, count: 600 }]]);
  assert.equal(keptFailures({ facts, failuresListed: 1_000 }, { failures })?.count, 0);
});

test('an invalid list of failed items, and one of a load test, counts as empty', () => {
  assert.equal(keptFailures({ facts, failuresListed: 0 }, { failures: undefined }), undefined);
  assert.equal(keptFailures({ facts, failuresListed: 0 }, { failures: new Uint8Array([7, 7, 7]) }), undefined);
  assert.equal(keptFailures({ facts: loadTestFacts('load'), failuresListed: 0 }, { failures }), undefined);
});
