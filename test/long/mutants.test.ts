/**
 * The properties of simulated pools and jobs find deliberate bugs. Each mutant runs with its recorded seed, and seeds
 * are searched if that one no longer finds it; the fast tier does the same for groups.
 */
import { testMutants } from '../support/mutations/mutant-tests.ts';

testMutants('deliberate bugs in whole nodes', ({ scenario }) => /\/(?:pools|jobs)/.test(scenario));
