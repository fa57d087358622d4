/**
 * One test per mutant: its recorded seed finds it (`npm run prove mutations -- --record`), or a search of seeds does.
 * The unchanged sources pass with the same seeds. A mutant whose quoted lines are gone fails: quote the new lines.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Mutant, type MutantReport, readMutants, searchInProcess, searchSeeds } from './mutants.ts';

const seedsMax = 200;
const timeoutMs = 300_000;

/** After a change of the sources the recorded seed may run differently: searches from seed 1 on. */
async function searchAll(mutant: Mutant): Promise<MutantReport['caught']> {
  const { caught } = await searchInProcess(mutant, { first: 1, count: seedsMax }, timeoutMs);
  return caught;
}

export function testMutants(title: string, isChosen: (mutant: Mutant) => boolean): void {
  const mutants = readMutants().filter(isChosen);
  describe(title, { concurrency: 2 }, () => {
    it('each have a recorded seed of at most 200', () => {
      assert.ok(mutants.length >= 8);
      for (const { name, seed } of mutants) assert.ok(seed >= 1 && seed <= seedsMax, name);
    });

    for (const mutant of mutants) {
      const { name, why, scenario, seed, properties } = mutant;
      it(`include ${name}, which is found: ${why}`, { timeout: timeoutMs }, async () => {
        const { caught = await searchAll(mutant) } = await searchInProcess(
          mutant,
          { first: seed, count: 1 },
          timeoutMs,
        );
        assert.ok(caught !== undefined, `no seed of ${scenario} up to ${seedsMax} finds it`);
        assert.ok(properties.includes(caught.property), `${caught.property}: ${caught.message}`);
      });
    }

    it('are not found in the unchanged sources', { timeout: timeoutMs }, async () => {
      for (const { scenario, seed } of mutants) {
        const report = await searchSeeds(undefined, scenario, seed, 1);
        assert.deepEqual(report, { seedsRun: 1 }, `seed ${seed} of ${scenario}`);
      }
    });
  });
}
