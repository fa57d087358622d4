/**
 * Runs simulated clusters over seeds; exits with 1 if a property is violated. With `--experiment` it measures instead,
 * prints a table, and exits with 1 if a goal is missed.
 *
 *   npm run sim -- [--scenario FILE] [--seed N | --seeds N] [--minutes N] [--experiment NAME] [-o json]
 */
import { randomInt } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { formatExperimentReport } from '../test/simulation/experiments/experiment-report.ts';
import { experiments } from '../test/simulation/experiments/experiments.ts';
import { type CampaignResult, formatFailure, runCampaign } from '../test/simulation/scenario/campaign.ts';
import { parseScenario } from '../test/simulation/scenario/scenario.ts';
import { projectRoot } from './testing/stage.ts';

const seedsDefault = 20;
const seedsMax = 1_000_000_000;

const { values: flags } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string' },
    scenario: { type: 'string' },
    minutes: { type: 'string' },
    experiment: { type: 'string' },
    output: { type: 'string', short: 'o', default: 'table' },
  },
});

process.exitCode = (await main()) ? 0 : 1;

async function main(): Promise<boolean> {
  const seed = whole('--seed', flags.seed);
  if (flags.experiment !== undefined) return experiment(flags.experiment, seed ?? 1);
  return await campaign(seed);
}

async function campaign(seed: number | undefined): Promise<boolean> {
  const minutes = whole('--minutes', flags.minutes);
  const seeds =
    whole('--seeds', flags.seeds) ?? (seed !== undefined ? 1 : minutes === undefined ? seedsDefault : seedsMax);
  // With a time limit each run explores new seeds; without one it is a repeatable check.
  const firstSeed = seed ?? (minutes === undefined ? 1 : randomInt(seedsMax));
  const result = await runCampaign({
    scenarios: chosenScenarios(),
    firstSeed,
    seeds,
    ...(minutes === undefined ? {} : { minutesMax: minutes }),
    ...(seed !== undefined && seeds === 1 && flags.output !== 'json'
      ? { sink: (line: string) => console.log(line) }
      : {}),
    nowMs: () => performance.now(),
    yieldToLoop: () => turn(),
    onFailure: (failure) => console.error(formatFailure(failure)),
  });
  console.log(flags.output === 'json' ? JSON.stringify({ firstSeed, ...result }) : summary(result, firstSeed));
  return result.failures.length === 0;
}

function experiment(name: string, seed: number): boolean {
  const run = Object.hasOwn(experiments, name) ? experiments[name] : undefined;
  if (run === undefined) return usage(`--experiment takes one of ${Object.keys(experiments).join(', ')}`);
  const report = run({ seed: String(seed), progress: (line) => console.error(line), heapBytes });
  console.log(flags.output === 'json' ? JSON.stringify({ seed, ...report }) : formatExperimentReport(report));
  return report.goals.every(({ met }) => met);
}

/** The heap after a garbage collection, which Node offers only behind a flag. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}

function chosenScenarios(): { file: string; scenario: ReturnType<typeof parseScenario> }[] {
  const files = flags.scenario === undefined ? allScenarios() : [flags.scenario];
  return files.map((file) => ({ file, scenario: parseScenario(readJson(file)) }));
}

function allScenarios(): string[] {
  const folder = join(projectRoot, 'test', 'simulation');
  const files = globSync('*.json', { cwd: folder }).filter((file) => file !== 'registered.json');
  return files.toSorted().map((file) => relative(process.cwd(), join(folder, file)));
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    return usage(`cannot read the scenario ${file}: ${error instanceof Error ? error.message : ''}`);
  }
}

function whole(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > seedsMax) return usage(`${flag} takes a whole number from 1 to ${seedsMax}`);
  return value;
}

function usage(text: string): never {
  console.error(text);
  process.exit(2);
}

function summary(result: CampaignResult, firstSeed: number): string {
  const { seedsRun, failures, virtualMs, realMs, speed, rare } = result;
  const virtual = `${(virtualMs / 1_000).toFixed(0)} virtual s in ${(realMs / 1_000).toFixed(1)} s`;
  const counts = `${seedsRun - failures.length} passed, ${failures.length} failed`;
  return [
    `${seedsRun} runs from seed ${firstSeed} on: ${counts} (${virtual}, ${speed.toFixed(0)}x real time)`,
    ...failures.map((failure) => `replay: ${failure.replay}`),
    `rare points never reached: ${rare.neverFired.length === 0 ? 'none' : rare.neverFired.join(', ')}`,
  ].join('\n');
}
