/**
 * More seeds of every registered scenario than the fast tier runs, and others. They are the same each time, so that a
 * failure belongs to a change; `npm run prove seeds` looks for new ones.
 */
import { describe } from 'node:test';
import { testRegisteredScenarios } from '../simulation/scenario/registered-scenarios.ts';

describe('further seeds of every scenario', () => {
  testRegisteredScenarios(() => true, { firstSeed: 1_001, times: 5 });
});
