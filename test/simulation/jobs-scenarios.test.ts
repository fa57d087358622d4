/** Runs all registered scenarios of jobs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isJobScenario, testRegisteredScenarios } from './scenario/registered-scenarios.ts';

describe('a simulated cluster with jobs', () => {
  const { count } = testRegisteredScenarios(isJobScenario);

  it('has at least five scenarios', () => {
    assert.ok(count >= 5);
  });
});
