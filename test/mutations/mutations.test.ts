/**
 * The properties of simulated groups find deliberate bugs, and every mutant quotes lines that exist. Mutants of whole
 * nodes take seconds each: the long tier runs them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { testMutants } from '../support/mutations/mutant-tests.ts';
import { readMutants, sourceRoot } from '../support/mutations/mutants.ts';

testMutants('deliberate bugs in groups', ({ scenario }) => !/\/(?:pools|jobs)/.test(scenario));

it('every mutant quotes lines that occur once in their file', () => {
  const mutants = readMutants();
  assert.ok(mutants.length > 0);
  for (const { name, file, find, also = [] } of mutants) {
    for (const edit of [{ file, find }, ...also]) {
      const text = readFileSync(new URL(edit.file, sourceRoot), 'utf8');
      assert.equal(text.split(edit.find).length, 2, `${name}: ${edit.file} contains its lines once`);
    }
  }
});
