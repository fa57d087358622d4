import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDurationFlag } from './command-flags.ts';

test('a duration flag takes a number with a unit, and no bare number', () => {
  assert.deepEqual(
    ['500ms', '5s', '2m', '1h'].map((text) => parseDurationFlag('--duration', text)),
    [500, 5_000, 120_000, 3_600_000],
  );
  assert.equal(parseDurationFlag('--timeout', '0', 0), 0);
  for (const text of ['5', '', '-1s', 'soon'])
    assert.throws(() => parseDurationFlag('--duration', text), { code: 'BAD_ARGUMENT', message: /such as 500ms/ });
});
