/**
 * Runs one scenario with one seed, which decides everything that happens. Safety is checked in each step; the first
 * violation ends the run.
 *
 *   setup   all nodes start; there are no faults for `setupSeconds`
 *   faults  the faults that the seed drew, as often as it drew, for `seconds`
 *   heal    links, disks, clocks and paused processes recover; nodes that are down start
 *   quiet   no faults for `quietSeconds`; the workload starts no new work in the last 10 s
 *   end     liveness is checked
 */
import { Random } from '../../../src/base/random.ts';
import type { FaultContext } from '../faults/common-faults.ts';
import type { Observation, WorkloadRun } from '../checking/workload.ts';
import type { FailpointDraws } from '../../../src/simulation/engine/failpoint-draws.ts';
import type { ScenarioCatalog } from './scenario-catalog.ts';
import type { Scenario } from './scenario.ts';

export type PropertyViolation = { readonly property: string; readonly message: string; readonly atMs: number };

export type SeedRunOptions = {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly catalog: ScenarioCatalog;
  /** Also logs each message and each connection. */
  readonly detailed?: boolean;
  readonly sink?: (line: string) => void;
};

export type SeedRunResult = {
  readonly violation: PropertyViolation | undefined;
  readonly virtualMs: number;
  readonly steps: number;
  readonly lastLines: readonly string[];
  readonly draws: FailpointDraws;
};

const idleMs = 10_000;
const lastLinesMax = 60;

export function runSeed(options: SeedRunOptions): SeedRunResult {
  return new SeedRun(options).run();
}

class SeedRun {
  readonly #scenario: Scenario;
  readonly #catalog: ScenarioCatalog;
  readonly #random: Random;
  readonly #workload: WorkloadRun;
  readonly #checkers: readonly {
    readonly property: string;
    readonly check: ReturnType<ScenarioCatalog['properties'][string]>;
  }[];
  #violation: PropertyViolation | undefined;
  #faultsActive = false;

  constructor({ scenario, seed, catalog, detailed = false, sink }: SeedRunOptions) {
    this.#scenario = scenario;
    this.#catalog = catalog;
    const seedText = `${scenario.name}/${seed}`;
    this.#random = new Random(seedText).fork('run');
    const names = Array.from({ length: scenario.nodes }, (_, index) => `n${index + 1}`);
    const workload = catalog.workloads[scenario.workload] as ScenarioCatalog['workloads'][string];
    this.#workload = workload({
      seed: seedText,
      names,
      detailed,
      sink,
      observe: (observation) => this.#observe(observation),
    });
    this.#checkers = scenario.properties.map((property) => ({
      property,
      check: (catalog.properties[property] as ScenarioCatalog['properties'][string])(this.#workload),
    }));
    this.#workload.world.watch((event) => {
      if (event.kind === 'threw') this.#onViolation('programsNeverThrow', `${event.node}: ${String(event.error)}`);
      else this.#observe(event);
    });
  }

  run(): SeedRunResult {
    const { world } = this.#workload;
    world.startAll();
    this.#workload.start();
    this.#advance(this.#scenario.setupSeconds * 1_000);
    this.#startFaults();
    this.#advance(this.#scenario.seconds * 1_000);
    this.#heal();
    const quietMs = this.#scenario.quietSeconds * 1_000;
    this.#advance(Math.max(0, quietMs - idleMs));
    this.#workload.stopWork();
    this.#advance(Math.min(quietMs, idleMs));
    this.#checkLiveness();
    return {
      violation: this.#violation,
      virtualMs: world.timeline.nowMs,
      steps: world.timeline.steps,
      lastLines: world.log.last(lastLinesMax),
      draws: world.failpointDraws,
    };
  }

  #advance(durationMs: number): void {
    const { timeline } = this.#workload.world;
    const untilMs = timeline.nowMs + durationMs;
    while (this.#violation === undefined && (timeline.nextMs() ?? Infinity) <= untilMs) timeline.step();
    if (this.#violation === undefined) timeline.runUntil(untilMs);
  }

  /**
   * Swarm testing: each seed has its own mix of faults, because some bugs hide behind faults that are always active.
   */
  #startFaults(): void {
    if (this.#violation !== undefined) return;
    this.#faultsActive = true;
    const { world } = this.#workload;
    for (const name of this.#scenario.faults) {
      const random = this.#random.fork(`fault/${name}`);
      if (!random.chance(0.6)) continue;
      const intensity = random.between(0.2, 1) ** 2;
      world.log.add('world', `fault ${name} with intensity ${intensity.toFixed(2)}`);
      const context: FaultContext = {
        ...{ world, random, intensity },
        after: (delayMs, run) =>
          void world.timeline.after(delayMs, () => {
            if (this.#faultsActive) run();
          }),
      };
      this.#catalog.faults[name]?.(context);
    }
  }

  #heal(): void {
    if (this.#violation !== undefined) return;
    this.#faultsActive = false;
    const { world } = this.#workload;
    world.failpointDraws.disable();
    world.heal();
    world.startAll();
    this.#workload.healed?.();
    this.#observe({ kind: 'healed' });
  }

  #observe(observation: Observation): void {
    for (const { property, check } of this.#checkers) {
      const message = check.observe?.(observation);
      if (message !== undefined) this.#onViolation(property, message);
    }
  }

  #checkLiveness(): void {
    for (const { property, check } of this.#checkers) {
      const message = this.#violation === undefined ? check.atEnd?.() : undefined;
      if (message !== undefined) this.#onViolation(property, message);
    }
  }

  #onViolation(property: string, message: string): void {
    if (this.#violation !== undefined) return;
    const { world } = this.#workload;
    this.#violation = { property, message, atMs: world.timeline.nowMs };
    world.log.add('world', `violates ${property}: ${message}`);
  }
}
