import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RemusterError, serializeError } from './errors.ts';

test('a hint never contradicts what the error says about its effect', () => {
  const hintOf = (stateChanged: 'no' | 'yes' | 'maybe'): string =>
    serializeError(new RemusterError('DEADLINE', 'late', stateChanged)).hint;
  assert.match(hintOf('maybe'), /It may have had an effect: check the state, or resend with the same call id\.$/);
  assert.match(hintOf('no'), /Nothing was changed\.$/);
  assert.doesNotMatch(`${hintOf('no')} ${hintOf('yes')}`, /may have/);
  assert.doesNotMatch(serializeError(new RemusterError('BAD_ARGUMENT')).hint, /Nothing was changed/);
});
