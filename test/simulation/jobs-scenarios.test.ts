/** Every registered scenario of jobs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isOfJobs, runRegistered } from './registered-runs.ts';

describe('the scenarios of jobs', () => {
  const { count } = runRegistered(isOfJobs);

  it('are there', () => {
    assert.ok(count >= 5);
  });
});
