/**
 * Runs many seeds over scenarios and re-runs each failure in detail. Reads no file, prints nothing, owns no clock.
 * `remuster sim` is this function with a face.
 */
import type { FailpointName } from '../../../src/base/failpoints.ts';
import { RareCoverage } from '../../../src/simulation/engine/rare-draws.ts';
import { scenarioCatalog as ownRegistry, type ScenarioCatalog } from './scenario-catalog.ts';
import { runSeed, type SeedRunResult } from './seed-run.ts';
import type { Scenario } from './scenario.ts';

export type CampaignOptions = {
  /** With the path to name in the line that replays a failure. */
  readonly scenarios: readonly { readonly file: string; readonly scenario: Scenario }[];
  readonly firstSeed?: number;
  /** How many seeds each scenario gets. */
  readonly seeds: number;
  /** No new seed is begun after so much real time. */
  readonly minutesMax?: number;
  /** Real milliseconds. */
  readonly nowMs: () => number;
  /** Called between seeds, so that a signal or a screen gets its turn. */
  readonly yieldToLoop?: () => Promise<void>;
  /** Gets the whole event log of each seed, line by line. */
  readonly sink?: (line: string) => void;
  readonly detailed?: boolean;
  /** A failing seed is told at once, not at the end. */
  readonly failed?: (failure: SeedFailure) => void;
  /** Ends the campaign before the next seed. */
  readonly isStopped?: () => boolean;
  readonly registry?: ScenarioCatalog;
};

export type SeedFailure = {
  readonly scenario: string;
  readonly seed: number;
  readonly property: string;
  readonly message: string;
  readonly atMs: number;
  /** The one command that shows it again. */
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

const linesTold = 40;

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { scenarios, firstSeed = 1, seeds, nowMs } = options;
  const startMs = nowMs();
  const endMs = startMs + (options.minutesMax ?? Infinity) * 60_000;
  const coverage = new RareCoverage();
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
        options.failed?.(failure);
      }
      await options.yieldToLoop?.();
    }
  }
  const realMs = Math.max(nowMs() - startMs, 0.001);
  return { seedsRun, failures, steps, virtualMs, realMs, speed: virtualMs / realMs, rare: coverage.report() };
}

/** What a person sees of a failing seed. */
export function formatFailure(failure: SeedFailure): string {
  const { scenario, seed, property, message, atMs, replay, lastLines } = failure;
  return [
    `seed ${seed} of ${scenario} violates ${property} at ${atMs.toFixed(3)} ms: ${message}`,
    `replay: ${replay}`,
    ...lastLines.map((line) => `  ${line}`),
  ].join('\n');
}

function runOne(options: CampaignOptions, scenario: Scenario, seed: number): SeedRunResult {
  const { sink, detailed = false, registry = ownRegistry } = options;
  return withoutStacks(() => runSeed({ scenario, seed, registry, detailed, ...(sink === undefined ? {} : { sink }) }));
}

/** Nodes answer with errors all the time, and nobody looks at their stacks: making them is a fifth of a run. */
function withoutStacks<T>(run: () => T): T {
  const framesMax = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return run();
  } finally {
    Error.stackTraceLimit = framesMax;
  }
}

/** A failure is run a second time, with every detail. If the second run differs, that is worth more than the failure. */
function failureOf(
  options: CampaignOptions,
  file: string,
  scenario: Scenario,
  seed: number,
  { violation }: SeedRunResult,
): SeedFailure | undefined {
  if (violation === undefined) return undefined;
  const again = runSeed({ scenario, seed, registry: options.registry ?? ownRegistry, detailed: true });
  const same = again.violation?.property === violation.property && again.violation.atMs === violation.atMs;
  return {
    ...violation,
    message: same ? violation.message : `${violation.message} (and the replay went another way: not deterministic)`,
    scenario: scenario.name,
    seed,
    replay: `npm run sim -- --scenario ${file} --seed ${seed}`,
    lastLines: again.lastLines.slice(-linesTold),
  };
}
