/**
 * Runs every scenario file of this folder with as many seeds as it is registered for. A file that is not registered,
 * or registered and gone, fails here. Fixed seeds keep `npm test` repeatable; `npm run sim` looks for new ones.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { printFailure, runCampaign } from '../../src/simulation/campaign.ts';
import { parseRegistered, parseScenario } from '../../src/simulation/scenario.ts';

const folder = new URL('./', import.meta.url);
const register = 'registered.json';

function read(file: string): unknown {
  return JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
}

const files = readdirSync(folder).filter((file) => file.endsWith('.json') && file !== register);
const registered = parseRegistered(read(register), files);

describe('the scenarios', () => {
  const neverFired: (readonly string[])[] = [];

  for (const [file, seeds] of registered) {
    it(`${file}, ${seeds} seeds`, { timeout: 300_000 }, async () => {
      const scenario = parseScenario(read(file));
      assert.equal(`${scenario.name}.json`, file);
      const result = await runCampaign({
        scenarios: [{ file: `test/simulation/${file}`, scenario }],
        seeds,
        nowMs: () => performance.now(),
      });
      assert.equal(result.seedsRun, seeds);
      assert.ok(result.steps > 0);
      neverFired.push(result.rare.neverFired);
      if (result.failures.length > 0) assert.fail(result.failures.map(printFailure).join('\n\n'));
    });
  }

  it('took every rare path that is declared', () => {
    const [first = [], ...others] = neverFired;
    assert.equal(neverFired.length, registered.size);
    assert.deepEqual(
      first.filter((label) => others.every((labels) => labels.includes(label))),
      [],
    );
  });
});
