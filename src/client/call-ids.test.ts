/** Call ids of a session, and the lowest pending one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallIdAllocator } from './call-ids.ts';

test('the lowest pending number follows the ended calls in any order', () => {
  const callIds = new CallIdAllocator('s');
  const ids = [1, 2, 3, 4, 5].map(() => callIds.allocate());
  assert.deepEqual(
    ids.map(({ counter }) => counter),
    [1, 2, 3, 4, 5],
  );
  const lowestPending = [2, 0, 3, 2, 4].map((at) => {
    callIds.release(ids[at] as (typeof ids)[number]);
    return callIds.lowestPending;
  });
  assert.deepEqual(lowestPending, [1, 2, 2, 2, 2]);
  callIds.release(ids[1] as (typeof ids)[number]);
  assert.equal(callIds.lowestPending, 6);
  callIds.release({ session: 'other', generation: 1, counter: 6 });
  assert.equal(callIds.allocate().counter, 6);
  assert.equal(callIds.lowestPending, 6);
});
