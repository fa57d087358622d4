/**
 * The properties of simulated pools and jobs find deliberate bugs. Each mutant runs with the seed that a search has
 * recorded and is searched for when that seed no longer finds it; the fast tier does the same for groups.
 */
import { testMutants } from '../support/mutations/mutant-tests.ts';

testMutants('deliberate bugs in whole nodes', ({ scenario }) => /\/(?:pools|jobs)/.test(scenario));
