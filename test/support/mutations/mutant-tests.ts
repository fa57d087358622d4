/**
 * One test for each mutant: the recorded seed finds it (`npm run prove mutations -- --record`), or a search does; the
 * sources as they are pass with the same seeds. A mutant whose place in the sources is gone fails: give it a new one.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Mutant, type MutantReport, readMutants, searchInProcess, searchSeeds } from './mutants.ts';

const seedsMax = 200;
const timeoutMs = 300_000;

/** After a change of the sources the same seed runs differently: the search starts over. */
async function searched(mutant: Mutant): Promise<MutantReport['caught']> {
  const { caught } = await searchInProcess(mutant, { first: 1, count: seedsMax }, timeoutMs);
  return caught;
}

export function testMutants(title: string, isChosen: (mutant: Mutant) => boolean): void {
  const mutants = readMutants().filter(isChosen);
  describe(title, { concurrency: 2 }, () => {
    it('are there, and each was found within 200 seeds', () => {
      assert.ok(mutants.length >= 8);
      for (const { name, seed } of mutants) assert.ok(seed >= 1 && seed <= seedsMax, name);
    });

    for (const mutant of mutants) {
      const { name, why, scenario, seed, properties } = mutant;
      it(`${name}: ${why}`, { timeout: timeoutMs }, async () => {
        const { caught = await searched(mutant) } = await searchInProcess(mutant, { first: seed, count: 1 }, timeoutMs);
        assert.ok(caught !== undefined, `no seed of ${scenario} up to ${seedsMax} finds it`);
        assert.ok(properties.includes(caught.property), `${caught.property}: ${caught.message}`);
      });
    }

    it('are not found where there are none', { timeout: timeoutMs }, async () => {
      for (const { scenario, seed } of mutants) {
        const report = await searchSeeds(undefined, scenario, seed, 1);
        assert.deepEqual(report, { seedsRun: 1 }, `seed ${seed} of ${scenario}`);
      }
    });
  });
}
