/**
 * `remuster sim`: runs simulated clusters over seeds; exits with 1 on a violated property. With `--experiment` it
 * measures instead, prints a table, and exits with 1 on a missed goal.
 */
import { randomInt } from 'node:crypto';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { RemusterError } from '../base/errors.ts';
import { type CampaignResult, formatFailure, runCampaign } from '../simulation/scenario/campaign.ts';
import { experiments } from '../simulation/experiments/experiments.ts';
import { formatExperimentReport } from '../simulation/experiments/experiment-report.ts';
import { parseScenario } from '../simulation/scenario/scenario.ts';
import { exitFailed, exitOk } from './command/exit.ts';
import { schemaVersion } from './output/render.ts';
import { printData, printNotice } from './output/terminal.ts';

export type SimFlags = {
  readonly seed?: string;
  readonly seeds?: string;
  readonly scenario?: string;
  readonly minutes?: string;
  readonly experiment?: string;
  readonly output: string;
  /** The file that was started; the scenarios of the repository lie beside the sources. */
  readonly entry: string;
};

const seedsDefault = 20;
const seedsMax = 1_000_000_000;

export async function simCommand(flags: SimFlags): Promise<number> {
  const seed = whole('--seed', flags.seed);
  if (flags.experiment !== undefined) return experiment(flags.experiment, seed ?? 1, flags.output);
  const minutes = whole('--minutes', flags.minutes);
  const seeds =
    whole('--seeds', flags.seeds) ?? (seed !== undefined ? 1 : minutes === undefined ? seedsDefault : seedsMax);
  // With a time limit every run looks somewhere else; without one it is the same check each time.
  const firstSeed = seed ?? (minutes === undefined ? 1 : randomInt(seedsMax));
  const result = await runCampaign({
    scenarios: scenariosOf(flags),
    firstSeed,
    seeds,
    ...(minutes === undefined ? {} : { minutesMax: minutes }),
    ...(seed !== undefined && seeds === 1 && flags.output !== 'json' ? { sink: printData } : {}),
    nowMs: () => performance.now(),
    yieldToLoop: () => turn(),
    failed: (failure) => printNotice(formatFailure(failure)),
  });
  printData(
    flags.output === 'json' ? JSON.stringify({ schemaVersion, firstSeed, ...result }) : summary(result, firstSeed),
  );
  return result.failures.length === 0 ? exitOk : exitFailed;
}

function experiment(name: string, seed: number, output: string): number {
  const run = Object.hasOwn(experiments, name) ? experiments[name] : undefined;
  if (run === undefined) {
    throw new RemusterError('BAD_ARGUMENT', `--experiment takes one of ${Object.keys(experiments).join(', ')}`);
  }
  const report = run({ seed: String(seed), progress: (line) => printNotice(line), heapBytes });
  printData(output === 'json' ? JSON.stringify({ schemaVersion, seed, ...report }) : formatExperimentReport(report));
  return report.goals.every(({ met }) => met) ? exitOk : exitFailed;
}

/** What is left after a garbage collection, which Node.js only offers when asked by a flag. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}

function scenariosOf({ scenario, entry }: SimFlags): { file: string; scenario: ReturnType<typeof parseScenario> }[] {
  const folder = resolve(dirname(entry), '..', '..', 'test', 'simulation');
  const files = scenario === undefined ? registeredIn(folder) : [scenario];
  return files.map((file) => ({ file, scenario: parseScenario(readJson(file)) }));
}

function registeredIn(folder: string): string[] {
  if (!existsSync(join(folder, 'registered.json'))) {
    throw new RemusterError('BAD_ARGUMENT', 'the installed package has no scenarios; name a file with --scenario');
  }
  const files = globSync('*.json', { cwd: folder }).filter((file) => file !== 'registered.json');
  return files.toSorted().map((file) => relative(process.cwd(), join(folder, file)));
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `cannot read the scenario ${file}: ${error instanceof Error ? error.message : ''}`,
    );
  }
}

function whole(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > seedsMax)
    throw new RemusterError('BAD_ARGUMENT', `${flag} takes a whole number from 1 to ${seedsMax}`);
  return value;
}

function summary(result: CampaignResult, firstSeed: number): string {
  const { seedsRun, failures, virtualMs, realMs, speed, rare } = result;
  const times = `${(virtualMs / 1_000).toFixed(0)} virtual s in ${(realMs / 1_000).toFixed(1)} s, ${speed.toFixed(0)}x real time`;
  return [
    `${seedsRun} runs from seed ${firstSeed} on: ${seedsRun - failures.length} passed, ${failures.length} failed (${times})`,
    ...failures.map((failure) => `replay: ${failure.replay}`),
    `rare points never reached: ${rare.neverFired.length === 0 ? 'none' : rare.neverFired.join(', ')}`,
  ].join('\n');
}
