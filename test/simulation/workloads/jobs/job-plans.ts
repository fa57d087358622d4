/**
 * Draws the jobs that simulated clients submit: request, fake code and expected behaviour. Everything follows from the
 * seed.
 */
import type { Random } from '../../../../src/base/random.ts';
import type { JobRequest } from '../../../../src/jobs/job-types.ts';
import type { BatchFacts, LoadFacts, WorkflowFacts } from '../../../../src/jobs/workflow-facts.ts';
import { simulatedHash } from '../../../../src/simulation/engine/simulated-hash.ts';
import { type FakeCodeBehaviour, encodeFakeCode } from '../../../fakes/fake-code.ts';

export type PlanKind = 'small' | 'long' | 'batch' | 'load' | 'dag' | 'search' | 'broken' | 'poison' | 'flaky' | 'stuck';

export type JobPlan = {
  /** Unique among all plans of a run. */
  readonly name: string;
  readonly kind: PlanKind;
  readonly submitter: string;
  readonly request: JobRequest;
  readonly code: Uint8Array;
  /** A client cancels the job this long after it was accepted; undefined: never. */
  readonly cancelAfterMs: number | undefined;
  /** The job starts at the earliest this long after the submission; undefined: at once. */
  readonly startAfterMs: number | undefined;
};

type Part = { readonly facts: WorkflowFacts; readonly behaviour: FakeCodeBehaviour };

/** The environment variable from which the fake code knows its plan. */
export const planVariable = 'PLAN';
const workflowTimeoutMs = 9_000;
/** For runs without faults, in which bursts alone delay jobs. */
const longTimeoutMs = 30_000;

/** The facts that all drawn workflows share. */
export function defaultWorkflowFacts(name: string, more: Partial<WorkflowFacts>): WorkflowFacts {
  return {
    ...{ name, style: 'batch', cores: 1, after: [], timeoutMs: workflowTimeoutMs, maxRetries: 3, network: false },
    ...{ memoryMb: 64, hasSetup: false, hasTeardown: false, thresholds: {} },
    ...more,
  };
}

export function defaultBatchFacts(more: Partial<BatchFacts>): BatchFacts {
  return { firstOnly: false, concurrency: 1, unitItemsMax: 10, keepResults: true, ...more };
}

export function createJobPlan(
  plan: Pick<JobPlan, 'name' | 'kind' | 'submitter'> & Partial<Pick<JobPlan, 'cancelAfterMs' | 'startAfterMs'>>,
  parts: readonly Part[],
  options: Partial<JobRequest>,
): JobPlan {
  const code = encodeFakeCode({
    workflows: Object.fromEntries(parts.map(({ facts, behaviour }) => [facts.name, behaviour])),
  });
  const workflows = parts.map(({ facts }) => facts);
  const env = { [planVariable]: plan.name };
  const request = { name: plan.name, bundle: simulatedHash(code), workflows, env, ...options };
  return { cancelAfterMs: undefined, startAfterMs: undefined, ...plan, request, code };
}

export class JobPlanGenerator {
  readonly #random: Random;
  /** No job fails because of its code. */
  readonly #areHealthy: boolean;
  readonly #longChance: number;
  #drawn = 0;

  constructor(random: Random, areHealthy: boolean, longChance: number) {
    this.#random = random;
    this.#areHealthy = areHealthy;
    this.#longChance = longChance;
  }

  draw(kind: PlanKind = this.#kind()): JobPlan {
    const random = this.#random;
    const name = `job-${++this.#drawn}`;
    const drawnMs = Math.round(kind === 'stuck' ? random.between(3_000, 8_000) : random.between(6_000, 10_000));
    const timeoutMs = this.#areHealthy ? longTimeoutMs : drawnMs;
    const options: Partial<JobRequest> = {
      ...{ timeoutMs, seed: random.below(1_000_000) },
      ...(random.chance(0.9) ? { idempotencyKey: `key-of-${name}` } : {}),
      ...(random.chance(0.3) ? { priority: random.below(10) } : {}),
    };
    const submitter = `client-${1 + random.below(3)}`;
    const isCancelled = random.chance(kind === 'small' ? 0.05 : 0.2);
    const cancelAfterMs = isCancelled ? random.between(0, 3_000) : undefined;
    // Faults set wall clocks by an hour, so start times are drawn only without faults.
    const startAfterMs = this.#areHealthy && random.chance(0.1) ? Math.round(random.between(500, 4_000)) : undefined;
    const parts = this.#parts(kind).map(({ facts, behaviour }) => ({
      facts: this.#areHealthy ? { ...facts, timeoutMs: longTimeoutMs } : facts,
      behaviour,
    }));
    return createJobPlan({ name, kind, submitter, cancelAfterMs, startAfterMs }, parts, options);
  }

  #kind(): PlanKind {
    const random = this.#random;
    if (random.chance(this.#longChance)) return 'long';
    if (random.chance(0.45)) return 'small';
    const kinds = ['batch', 'batch', 'batch', 'load', 'load', 'dag', 'dag', 'search'] as const;
    const troubles = ['long', 'broken', 'poison', 'flaky', 'stuck'] as const;
    return random.pick<PlanKind>(this.#areHealthy ? kinds : [...kinds, ...troubles]);
  }

  #parts(kind: PlanKind): readonly Part[] {
    const random = this.#random;
    const draws: Readonly<Record<PlanKind, () => readonly Part[]>> = {
      small: () => [this.#small()],
      // Longer than a lease: a worker that does not stop still runs the unit when another one starts it.
      long: () => {
        const batch = defaultBatchFacts({ items: 12, unitItemsMax: 6 });
        return [this.#batch('all', { itemMs: random.pick([700, 1_000]) }, { batch, cores: 2 })];
      },
      batch: () => [this.#batch('all', {})],
      load: () => [this.#load()],
      dag: () => this.#dag(),
      search: () => [this.#search()],
      broken: () => [this.#batch('all', { trouble: 'throws' }, { hasSetup: true })],
      poison: () => {
        const trouble = random.pick(['crashes', 'crashes', 'sendsGarbage'] as const);
        return [this.#batch('all', { trouble, troubleUnit: 0 }, { maxRetries: random.below(4) })];
      },
      // The process crashes once: the next attempt succeeds.
      flaky: () => [this.#batch('all', { trouble: 'crashes', troubleRuns: 1, troubleUnit: 0 }, { maxRetries: 3 })],
      stuck: () => {
        const timeoutMs = random.chance(0.5) ? Math.round(random.between(1_500, 5_000)) : workflowTimeoutMs;
        return [this.#batch('all', { trouble: random.pick(['hangs', 'ignoresStop'] as const) }, { timeoutMs })];
      },
    };
    return draws[kind]();
  }

  #small(): Part {
    const random = this.#random;
    const items = 1 + random.below(4);
    const batch = defaultBatchFacts({ items, ...this.#policy() });
    const facts = defaultWorkflowFacts('only', { batch, hasSetup: random.chance(0.2) });
    return { facts, behaviour: { itemMs: random.pick([1, 5, 40, 200]), failingPercent: random.pick([0, 0, 30]) } };
  }

  #batch(name: string, behaviour: Partial<FakeCodeBehaviour>, more: Partial<WorkflowFacts> = {}): Part {
    const random = this.#random;
    // The results of many items do not fit into the record of their unit.
    const areMany = behaviour.itemMs === undefined && random.chance(0.2);
    const items = areMany ? 100 + random.below(150) : 5 + random.below(40);
    const isKnown = random.chance(0.7);
    const unitItemsMax = areMany ? 40 + random.below(60) : 2 + random.below(9);
    const batch = defaultBatchFacts({ unitItemsMax, ...(isKnown ? { items } : {}), ...this.#policy() });
    const facts = defaultWorkflowFacts(name, {
      ...{ batch, cores: 1 + random.below(5), maxRetries: random.pick([0, 2, 3, 5]) },
      ...{ hasSetup: random.chance(0.3), hasTeardown: random.chance(0.3) },
      ...more,
    });
    const own = { itemMs: areMany ? 3 : random.pick([5, 30, 80, 150]), failingPercent: random.pick([0, 10]), items };
    return { facts, behaviour: { ...own, ...behaviour } };
  }

  /** The policies for failed items, in turn: no random draw depends on them. */
  #policy(): Pick<BatchFacts, 'onItemError' | 'maxFailures'> {
    const policies = [{}, { onItemError: 'continue' }, { maxFailures: 2 }, { onItemError: 'stop' }] as const;
    return policies[this.#drawn % policies.length] as (typeof policies)[number];
  }

  #load(): Part {
    const random = this.#random;
    const load: LoadFacts = {
      ...{ vus: 2 + random.below(12), steps: [{ name: 'step', after: [] }] },
      ...(random.chance(0.5) ? { durationMs: 500 + random.below(2_500) } : { iterations: 10 + random.below(80) }),
    };
    const facts = defaultWorkflowFacts('load', {
      ...{ style: 'load', load, cores: 1 + random.below(4), maxRetries: random.pick([1, 3]) },
      ...{ hasSetup: random.chance(0.3), hasTeardown: random.chance(0.3) },
    });
    return { facts, behaviour: { itemMs: random.pick([20, 50, 100]), failingPercent: random.pick([0, 5, 50]) } };
  }

  #search(): Part {
    const random = this.#random;
    const items = 20 + random.below(30);
    const batch = defaultBatchFacts({ items, firstOnly: true, unitItemsMax: 5, keepResults: false });
    const facts = defaultWorkflowFacts('search', { batch, cores: 2 + random.below(3) });
    return { facts, behaviour: { itemMs: random.pick([20, 60]), finds: random.below(items) } };
  }

  #dag(): readonly Part[] {
    const random = this.#random;
    const parts: Part[] = [];
    const count = 2 + random.below(3);
    for (let at = 0; at < count; at++) {
      const before = parts.map(({ facts }) => facts.name).filter(() => random.chance(0.6));
      parts.push(this.#batch(`step-${at}`, { itemMs: random.pick([5, 20, 50]) }, { after: before }));
    }
    return parts;
  }
}
