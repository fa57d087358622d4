/** Runs all registered scenarios except those of jobs, and checks that every failpoint fires in one of them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isJobScenario, testRegisteredScenarios } from './scenario/registered-scenarios.ts';

describe('a simulated cluster', () => {
  const { count, neverFired } = testRegisteredScenarios((file) => !isJobScenario(file));

  it('fires every declared failpoint in some scenario', () => {
    const [first = [], ...others] = neverFired;
    assert.equal(neverFired.length, count);
    assert.deepEqual(
      first.filter((label) => others.every((labels) => labels.includes(label))),
      [],
    );
  });
});
