/** Every registered scenario of jobs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isJobScenario, testRegisteredScenarios } from '../support/simulation/registered-scenarios.ts';

describe('the scenarios of jobs', () => {
  const { count } = testRegisteredScenarios(isJobScenario);

  it('are there', () => {
    assert.ok(count >= 5);
  });
});
