/**
 * Five times as many seeds of every registered scenario as in the fast tier, and other ones. They are fixed, so that a
 * failure belongs to a change; `npm run prove seeds` runs new ones.
 */
import { describe } from 'node:test';
import { testRegisteredScenarios } from '../simulation/scenario/registered-scenarios.ts';

describe('a simulated cluster with further seeds', () => {
  testRegisteredScenarios(() => true, { firstSeed: 1_001, times: 5 });
});
