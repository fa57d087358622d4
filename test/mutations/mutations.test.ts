/**
 * The properties of simulated groups find deliberate bugs. Each mutant runs with the seed that a search has found
 * (`node scripts/proofs/mutations.ts --record` writes them down), and is searched for when that one no longer finds it; the
 * sources as they are run with the same seeds and pass. A mutant whose place in the sources is gone fails here: give it
 * a new one.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
  searchInProcess,
  searchSeeds,
  type Mutant,
  type MutantReport,
  readMutants,
  sourceRoot,
} from '../support/mutations/mutants.ts';

const seedsMax = 200;
const timeoutMs = 300_000;
const mutants = readMutants();
/** A seed of whole nodes takes seconds: those are hunted by `npm run mutations`, and only held to their places here. */
const quick = mutants.filter(({ scenario }) => !/\/(?:pools|jobs)/.test(scenario));
const slow = mutants.filter((mutant) => !quick.includes(mutant));

/** A change of the sources makes other runs of the same seeds: then the search begins anew. */
async function searched(mutant: Mutant): Promise<MutantReport['caught']> {
  const { caught } = await searchInProcess(mutant, { first: 1, count: seedsMax }, timeoutMs);
  return caught;
}

describe('deliberate bugs', { concurrency: 2 }, () => {
  it('are there, and each was found within 200 seeds', () => {
    assert.ok(mutants.length >= 8);
    for (const { name, seed } of quick) assert.ok(seed >= 1 && seed <= seedsMax, name);
  });

  it('of whole nodes have a place in the sources', () => {
    assert.ok(slow.length > 0);
    for (const { name, file, find, also = [] } of slow) {
      for (const edit of [{ file, find }, ...also]) {
        const text = readFileSync(new URL(edit.file, sourceRoot), 'utf8');
        assert.equal(text.split(edit.find).length, 2, `${name}: ${edit.file} has its place once`);
      }
    }
  });

  for (const mutant of quick) {
    const { name, why, scenario, seed, properties } = mutant;
    it(`${name}: ${why}`, { timeout: timeoutMs }, async () => {
      const { caught = await searched(mutant) } = await searchInProcess(mutant, { first: seed, count: 1 }, timeoutMs);
      assert.ok(caught !== undefined, `no seed of ${scenario} up to ${seedsMax} finds it`);
      assert.ok(properties.includes(caught.property), `${caught.property}: ${caught.message}`);
    });
  }

  it('are not found where there are none', { timeout: timeoutMs }, async () => {
    assert.ok(quick.length > 0);
    for (const { scenario, seed } of quick) {
      assert.deepEqual(await searchSeeds(undefined, scenario, seed, 1), { seedsRun: 1 }, `seed ${seed} of ${scenario}`);
    }
  });
});
