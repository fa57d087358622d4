/** The numbers of calls, and the lowest that is still waited for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallIdAllocator } from './call-ids.ts';

test('the lowest follows what has ended, in whatever order it ends', () => {
  const numbers = new CallIdAllocator('s');
  const ids = [1, 2, 3, 4, 5].map(() => numbers.allocate());
  assert.deepEqual(
    ids.map(({ counter }) => counter),
    [1, 2, 3, 4, 5],
  );
  const lowestPending = [2, 0, 3, 2, 4].map((at) => {
    numbers.release(ids[at] as (typeof ids)[number]);
    return numbers.lowestPending;
  });
  assert.deepEqual(lowestPending, [1, 2, 2, 2, 2]);
  numbers.release(ids[1] as (typeof ids)[number]);
  assert.equal(numbers.lowestPending, 6);
  numbers.release({ session: 'other', generation: 1, counter: 6 });
  assert.equal(numbers.allocate().counter, 6);
  assert.equal(numbers.lowestPending, 6);
});
