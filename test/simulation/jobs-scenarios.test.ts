/** Every registered scenario of jobs. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isJobScenario, testRegisteredScenarios } from './scenario/registered-scenarios.ts';

describe('the scenarios of jobs', () => {
  const { count } = testRegisteredScenarios(isJobScenario);

  it('are there', () => {
    assert.ok(count >= 5);
  });
});
