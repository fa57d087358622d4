/** Every registered scenario but those of jobs, and every rare path that is declared. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isJobScenario, testRegisteredScenarios } from './scenario/registered-scenarios.ts';

describe('the scenarios', () => {
  const { count, neverFired } = testRegisteredScenarios((file) => !isJobScenario(file));

  it('took every rare path that is declared', () => {
    const [first = [], ...others] = neverFired;
    assert.equal(neverFired.length, count);
    assert.deepEqual(
      first.filter((label) => others.every((labels) => labels.includes(label))),
      [],
    );
  });
});
