/**
 * A campaign runs many seeds over scenarios and re-runs each failure in detail. Reads no file, prints nothing, owns no
 * clock: `npm run sim` does that.
 */
import type { FailpointName } from '../../../src/base/failpoints.ts';
import { FailpointCoverage } from '../../../src/simulation/engine/failpoint-draws.ts';
import { scenarioCatalog as defaultCatalog, type ScenarioCatalog } from './scenario-catalog.ts';
import { runSeed, type SeedRunResult } from './seed-run.ts';
import type { Scenario } from './scenario.ts';

export type CampaignOptions = {
  /** With the path that the replay command of a failure names. */
  readonly scenarios: readonly { readonly file: string; readonly scenario: Scenario }[];
  readonly firstSeed?: number;
  /** How many seeds each scenario gets. */
  readonly seeds: number;
  /** No new seed starts after this much real time. */
  readonly minutesMax?: number;
  /** Real milliseconds. */
  readonly nowMs: () => number;
  /** Awaited between seeds, so that signals are handled. */
  readonly yieldToLoop?: () => Promise<void>;
  /** Receives the event log of each seed, line by line. */
  readonly sink?: (line: string) => void;
  readonly detailed?: boolean;
  /** Called for a failing seed at once, not at the end. */
  readonly onFailure?: (failure: SeedFailure) => void;
  /** Ends the campaign before the next seed. */
  readonly isStopped?: () => boolean;
  readonly catalog?: ScenarioCatalog;
};

export type SeedFailure = {
  readonly scenario: string;
  readonly seed: number;
  readonly property: string;
  readonly message: string;
  readonly atMs: number;
  /** The command that replays it. */
  readonly replay: string;
  readonly lastLines: readonly string[];
};

export type CampaignResult = {
  readonly seedsRun: number;
  readonly failures: readonly SeedFailure[];
  readonly steps: number;
  readonly virtualMs: number;
  readonly realMs: number;
  /** Virtual time over real time. */
  readonly speed: number;
  readonly rare: {
    readonly fired: Readonly<Record<string, number>>;
    readonly neverFired: readonly FailpointName[];
  };
};

const lastLinesCount = 40;

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { scenarios, firstSeed = 1, seeds, nowMs } = options;
  const startMs = nowMs();
  const endMs = startMs + (options.minutesMax ?? Infinity) * 60_000;
  const coverage = new FailpointCoverage();
  const failures: SeedFailure[] = [];
  let [seedsRun, steps, virtualMs] = [0, 0, 0];
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    for (const { file, scenario } of scenarios) {
      if (nowMs() >= endMs || options.isStopped?.() === true) break;
      const result = runOne(options, scenario, seed);
      coverage.add(result.draws);
      [seedsRun, steps, virtualMs] = [seedsRun + 1, steps + result.steps, virtualMs + result.virtualMs];
      const failure = failureOf(options, file, scenario, seed, result);
      if (failure !== undefined) {
        failures.push(failure);
        options.onFailure?.(failure);
      }
      await options.yieldToLoop?.();
    }
  }
  const realMs = Math.max(nowMs() - startMs, 0.001);
  return { seedsRun, failures, steps, virtualMs, realMs, speed: virtualMs / realMs, rare: coverage.report() };
}

/** The text about a failing seed. */
export function formatFailure(failure: SeedFailure): string {
  const { scenario, seed, property, message, atMs, replay, lastLines } = failure;
  return [
    `seed ${seed} of ${scenario} violates ${property} at ${atMs.toFixed(3)} ms: ${message}`,
    `replay: ${replay}`,
    ...lastLines.map((line) => `  ${line}`),
  ].join('\n');
}

function runOne(options: CampaignOptions, scenario: Scenario, seed: number): SeedRunResult {
  const { sink, detailed = false, catalog = defaultCatalog } = options;
  return withoutStacks(() => runSeed({ scenario, seed, catalog, detailed, ...(sink === undefined ? {} : { sink }) }));
}

/** Errors are frequent replies of nodes. Their stacks are never read, and creating them takes a fifth of a run. */
function withoutStacks<T>(run: () => T): T {
  const framesMax = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return run();
  } finally {
    Error.stackTraceLimit = framesMax;
  }
}

/** Re-runs a failing seed with details. A re-run that differs is reported: the run is not deterministic. */
function failureOf(
  options: CampaignOptions,
  file: string,
  scenario: Scenario,
  seed: number,
  { violation }: SeedRunResult,
): SeedFailure | undefined {
  if (violation === undefined) return undefined;
  const again = runSeed({ scenario, seed, catalog: options.catalog ?? defaultCatalog, detailed: true });
  const same = again.violation?.property === violation.property && again.violation.atMs === violation.atMs;
  return {
    ...violation,
    message: same ? violation.message : `${violation.message} (and the replay differs: the run is not deterministic)`,
    scenario: scenario.name,
    seed,
    replay: `npm run sim -- --scenario ${file} --seed ${seed}`,
    lastLines: again.lastLines.slice(-lastLinesCount),
  };
}
