/**
 * The properties of simulated groups find deliberate bugs. Each mutant runs with the seed that an honest search has
 * found (`node scripts/mutations.ts --record`), and the sources as they are run with the same seeds and pass. A mutant
 * whose place in the sources is gone fails here: give it a new one.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { hunt, readMutants } from './mutants.ts';

const timeoutMs = 120_000;
const mutants = readMutants();

describe('deliberate bugs', { concurrency: 2 }, () => {
  it('are there, and each was found within 200 seeds', () => {
    assert.ok(mutants.length >= 8);
    for (const { name, seed } of mutants) assert.ok(seed >= 1 && seed <= 200, name);
  });

  for (const { name, why, scenario, seed, properties } of mutants) {
    it(`${name}: ${why}`, { timeout: timeoutMs }, async () => {
      const { caught } = await hunt({ name, scenario, first: seed, seeds: 1 }, timeoutMs);
      assert.ok(
        caught !== undefined,
        `seed ${seed} of ${scenario} finds nothing: search again, see scripts/mutations.ts`,
      );
      assert.ok(properties.includes(caught.property), `${caught.property}: ${caught.message}`);
    });
  }

  it('are not found where there are none', { timeout: timeoutMs }, async () => {
    const runs = mutants.map(({ scenario, seed }) => ({ scenario, seed }));
    assert.ok(runs.length > 0);
    for (const { scenario, seed } of runs) {
      const report = await hunt({ name: undefined, scenario, first: seed, seeds: 1 }, timeoutMs);
      assert.deepEqual(report, { seedsRun: 1 }, `seed ${seed} of ${scenario}`);
    }
  });
});
