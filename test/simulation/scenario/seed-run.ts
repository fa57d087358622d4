/**
 * Runs one scenario with one seed: setup, faults, heal, quiet, end. Stops at the first violation. The seed decides
 * everything.
 *
 *   setup   all nodes start, nothing is wrong for `setupSeconds`
 *   faults  those that the seed has drawn, as often as it has drawn, for `seconds`
 *   heal    links, disks, clocks and stalls are well, who is down starts
 *   quiet   for `quietSeconds`, the last of them without new work
 *   end     liveness is looked at
 *
 * Safety is looked at in each step, and the first violation ends the run. The seed decides everything.
 */
import { Random } from '../../../src/base/random.ts';
import type { FaultContext } from '../faults/common-faults.ts';
import type { Observation, WorkloadRun } from '../checking/workload.ts';
import type { RareDraws } from '../../../src/simulation/engine/rare-draws.ts';
import type { ScenarioCatalog } from './scenario-catalog.ts';
import type { Scenario } from './scenario.ts';

export type PropertyViolation = { readonly property: string; readonly message: string; readonly atMs: number };

export type SeedRunOptions = {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly registry: ScenarioCatalog;
  /** Also tells of each message and each connection. */
  readonly detailed?: boolean;
  readonly sink?: (line: string) => void;
};

export type SeedRunResult = {
  readonly violation: PropertyViolation | undefined;
  readonly virtualMs: number;
  readonly steps: number;
  readonly lastLines: readonly string[];
  readonly draws: RareDraws;
};

const restMs = 10_000;
const lastLinesMax = 60;

export function runSeed(options: SeedRunOptions): SeedRunResult {
  return new SeedRun(options).run();
}

class SeedRun {
  readonly #scenario: Scenario;
  readonly #registry: ScenarioCatalog;
  readonly #random: Random;
  readonly #stage: WorkloadRun;
  readonly #checkers: readonly {
    readonly property: string;
    readonly check: ReturnType<ScenarioCatalog['properties'][string]>;
  }[];
  #violation: PropertyViolation | undefined;
  #faulty = false;

  constructor({ scenario, seed, registry, detailed = false, sink }: SeedRunOptions) {
    this.#scenario = scenario;
    this.#registry = registry;
    const seedText = `${scenario.name}/${seed}`;
    this.#random = new Random(seedText).fork('run');
    const names = Array.from({ length: scenario.nodes }, (_, index) => `n${index + 1}`);
    const workload = registry.workloads[scenario.workload] as ScenarioCatalog['workloads'][string];
    this.#stage = workload({ seed: seedText, names, detailed, sink, observe: (seen) => this.#observe(seen) });
    this.#checkers = scenario.properties.map((property) => ({
      property,
      check: (registry.properties[property] as ScenarioCatalog['properties'][string])(this.#stage),
    }));
    this.#stage.world.watch((event) => {
      if (event.kind === 'threw') this.#violated('programsNeverThrow', `${event.node}: ${String(event.error)}`);
      else this.#observe(event);
    });
  }

  run(): SeedRunResult {
    const { world } = this.#stage;
    world.startAll();
    this.#stage.start();
    this.#pass(this.#scenario.setupSeconds * 1_000);
    this.#beginFaults();
    this.#pass(this.#scenario.seconds * 1_000);
    this.#heal();
    const quietMs = this.#scenario.quietSeconds * 1_000;
    this.#pass(Math.max(0, quietMs - restMs));
    this.#stage.stopWork();
    this.#pass(Math.min(quietMs, restMs));
    this.#atEnd();
    return {
      violation: this.#violation,
      virtualMs: world.timeline.nowMs,
      steps: world.timeline.steps,
      lastLines: world.log.last(lastLinesMax),
      draws: world.rareDraws,
    };
  }

  #pass(durationMs: number): void {
    const { timeline } = this.#stage.world;
    const untilMs = timeline.nowMs + durationMs;
    while (this.#violation === undefined && (timeline.nextMs() ?? Infinity) <= untilMs) timeline.step();
    if (this.#violation === undefined) timeline.runUntil(untilMs);
  }

  /** Swarm: each seed has its own mix, because some mistakes hide behind faults that are always there. */
  #beginFaults(): void {
    if (this.#violation !== undefined) return;
    this.#faulty = true;
    const { world } = this.#stage;
    for (const name of this.#scenario.faults) {
      const random = this.#random.fork(`fault/${name}`);
      if (!random.chance(0.6)) continue;
      const intensity = random.between(0.2, 1) ** 2;
      world.log.add('world', `fault ${name} with intensity ${intensity.toFixed(2)}`);
      const nemesis: FaultContext = {
        ...{ world, random, intensity },
        after: (delayMs, run) =>
          void world.timeline.after(delayMs, () => {
            if (this.#faulty) run();
          }),
      };
      this.#registry.faults[name]?.(nemesis);
    }
  }

  #heal(): void {
    if (this.#violation !== undefined) return;
    this.#faulty = false;
    const { world } = this.#stage;
    world.rareDraws.disable();
    world.heal();
    world.startAll();
    this.#stage.healed?.();
    this.#observe({ kind: 'healed' });
  }

  #observe(seen: Observation): void {
    for (const { property, check } of this.#checkers) {
      const message = check.observe?.(seen);
      if (message !== undefined) this.#violated(property, message);
    }
  }

  #atEnd(): void {
    for (const { property, check } of this.#checkers) {
      const message = this.#violation === undefined ? check.atEnd?.() : undefined;
      if (message !== undefined) this.#violated(property, message);
    }
  }

  #violated(property: string, message: string): void {
    if (this.#violation !== undefined) return;
    const { world } = this.#stage;
    this.#violation = { property, message, atMs: world.timeline.nowMs };
    world.log.add('world', `violates ${property}: ${message}`);
  }
}
