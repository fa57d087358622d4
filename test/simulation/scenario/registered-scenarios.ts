/**
 * Runs scenario files with their registered number of seeds. An unregistered file fails. Fixed seeds keep `npm test`
 * repeatable; `npm run sim` runs new ones.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { it } from 'node:test';
import { formatFailure, runCampaign } from './campaign.ts';
import { parseScenarioRegister, parseScenario } from './scenario.ts';

const folder = new URL('../../simulation/', import.meta.url);
const register = 'registered.json';

function read(file: string): unknown {
  return JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
}

/** The first seed, and how many times the registered number of seeds is run. */
export type SeedRange = { readonly firstSeed: number; readonly times: number };

/** Registers one test for each selected file. Returns, by file, the failpoints that never fired. */
export function testRegisteredScenarios(
  isSelected: (file: string) => boolean,
  { firstSeed, times }: SeedRange = { firstSeed: 1, times: 1 },
): {
  readonly count: number;
  readonly neverFired: readonly (readonly string[])[];
} {
  const files = readdirSync(folder).filter((file) => file.endsWith('.json') && file !== register);
  const selected = [...parseScenarioRegister(read(register), files)].filter(([file]) => isSelected(file));
  const neverFired: (readonly string[])[] = [];
  for (const [file, registered] of selected) {
    const seeds = registered * times;
    it(`keeps the properties of ${file} with ${seeds} seeds`, { timeout: 300_000 }, async () => {
      const scenario = parseScenario(read(file));
      assert.equal(`${scenario.name}.json`, file);
      const result = await runCampaign({
        scenarios: [{ file: `test/simulation/${file}`, scenario }],
        firstSeed,
        seeds,
        nowMs: () => performance.now(),
      });
      assert.equal(result.seedsRun, seeds);
      assert.ok(result.steps > 0);
      neverFired.push(result.rare.neverFired);
      if (result.failures.length > 0) assert.fail(result.failures.map(formatFailure).join('\n\n'));
    });
  }
  return { count: selected.length, neverFired };
}

/** Scenarios of jobs have a test file of their own, so that both files run concurrently. */
export function isJobScenario(file: string): boolean {
  return file.startsWith('jobs');
}
