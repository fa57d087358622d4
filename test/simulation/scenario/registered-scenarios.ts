/**
 * Runs scenario files with their registered seeds. An unregistered file fails. Fixed seeds keep `npm test` repeatable;
 * `npm run sim` looks for new ones.
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

/** Of which seeds: the first ones, as often as each file is registered, or others and more. */
export type SeedRange = { readonly firstSeed: number; readonly times: number };

/** One test for each file whose name is wanted. What it gives are the rare points that were never reached, by file. */
export function testRegisteredScenarios(
  isWanted: (file: string) => boolean,
  { firstSeed, times }: SeedRange = { firstSeed: 1, times: 1 },
): {
  readonly count: number;
  readonly neverFired: readonly (readonly string[])[];
} {
  const files = readdirSync(folder).filter((file) => file.endsWith('.json') && file !== register);
  const wanted = [...parseScenarioRegister(read(register), files)].filter(([file]) => isWanted(file));
  const neverFired: (readonly string[])[] = [];
  for (const [file, registered] of wanted) {
    const seeds = registered * times;
    it(`${file}, ${seeds} seeds`, { timeout: 300_000 }, async () => {
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
  return { count: wanted.length, neverFired };
}

/** Jobs have a file of their own: both take a while, and may run side by side. */
export function isJobScenario(file: string): boolean {
  return file.startsWith('jobs');
}
