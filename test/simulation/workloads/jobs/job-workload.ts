/**
 * Workload of jobs: whole nodes with fake runners, clients, an operator and an observer. At the end reads every job and
 * every core.
 */
import { Random } from '../../../../src/base/random.ts';
import {
  simulatedAddress,
  aliveMembersOf,
  bootSimulatedNode,
  type SimulatedNode,
} from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadRun, WorkloadContext, Workload } from '../../checking/workload.ts';
import { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { JobClients } from './job-clients.ts';
import { JobOperator } from './job-operator.ts';
import { defaultBatchFacts, type JobPlan, createJobPlan, JobPlanGenerator, defaultWorkflowFacts } from './job-plans.ts';
import { tapJobMessages } from './message-tap.ts';
import { JobObserver } from './job-observer.ts';

const managersCount = 3;
const coresEach = 2;
const settledMs = 4_000;
const lookMs = 250;
/** Short, so that a run of half a minute sees registrations and leases run out. */
const registrationTtlMs = 8_000;
const jobLeaseMs = 4_000;
/** What runs on a worker that hears nobody ends by itself; clocks may be slow, and processes take a while to end. */
const cancelGraceMs = 8_000;
const coresAfterMs = 9_000;

type Kind = {
  /** Workers are drained and stopped. */
  readonly isBusy: boolean;
  /** Rare paths are as rare as in real life, and no code is troublesome. */
  readonly isPlain: boolean;
  readonly pausesMs: readonly number[];
  readonly crowds: readonly number[];
  /** How many of its jobs last longer than a lease. */
  readonly longChance: number;
};

const usual: Kind = { isBusy: true, isPlain: false, pausesMs: [250, 500, 1_200], crowds: [0, 10, 25], longChance: 0 };

export const jobWorkloads = {
  jobs: (spec) => stage(spec, usual),
  jobsLong: (spec) => stage(spec, { ...usual, pausesMs: [700, 1_000], crowds: [0], longChance: 0.6 }),
  jobsCrowded: (spec) => stage(spec, { ...usual, isBusy: false, isPlain: true, pausesMs: [400], crowds: [40, 80] }),
} as const satisfies Readonly<Record<string, Workload>>;

function stage(spec: WorkloadContext, kind: Kind): WorkloadRun {
  const workload = new JobWorkload(spec, kind);
  return {
    world: workload.world,
    clusterOf: () => 'simulated',
    start: () => workload.start(),
    healed: () => workload.healed(),
    stopWork: () => workload.rest(),
    aliveViews: () => workload.views(),
    durableValue: () => 0,
  };
}

class JobWorkload {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #isBusy: boolean;
  readonly #managers: readonly string[];
  readonly #workers: readonly string[];
  readonly #witness: JobObserver;
  readonly #clients: JobClients;
  readonly #operator: JobOperator;

  constructor(
    { seed, names, detailed, sink, observe }: WorkloadContext,
    { isBusy, isPlain, pausesMs, crowds, longChance }: Kind,
  ) {
    const random = new Random(seed).fork('jobs');
    this.#observe = observe;
    this.#isBusy = isBusy;
    const witness = new JobObserver(() => this.world, coresEach, observe);
    this.#witness = witness;
    const managers = names.slice(0, managersCount);
    this.#managers = managers;
    this.#workers = names.slice(managersCount);
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, detailed, sink, rarities: !isPlain },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((manager) => simulatedAddress(this.world, manager)),
          roles: (one) => (managers.includes(one) ? ['manager'] : ['worker']),
          options: { registry: 'embedded', registrationTtlMs, jobLeaseMs },
          jobs: { cores: coresEach, runners: (inner, node) => witness.runners(node, inner) },
          wrap: (streams, datagrams) => ({ streams: tapJobMessages(streams, context.name, witness), datagrams }),
        }),
    });
    const { world } = this;
    world.watch((event) => {
      if (event.kind === 'stopped') witness.nodeStopped(event.node);
    });
    this.#operator = new JobOperator({ world, random: random.fork('operator'), workers: this.#workers });
    const pauseMs = random.fork('pause').pick(pausesMs);
    this.#clients = new JobClients({
      ...{
        world,
        random: random.fork('clients'),
        plans: new JobPlanGenerator(random.fork('plans'), isPlain, longChance),
        observe,
      },
      ...{ pauseMs, burstSize: random.fork('crowd').pick(crowds), cancelGraceMs },
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => {
      this.#clients.start();
      if (this.#isBusy) this.#operator.start();
    });
    this.#look();
  }

  healed(): void {
    this.#operator.stop();
    this.#clients.stopSubmitting();
  }

  rest(): void {
    this.#observe({ kind: 'jobsLookedAt' });
    this.#clients.readAllJobs();
    this.#clients.submit(this.#allCoresPlan());
    this.world.timeline.after(coresAfterMs, () => this.#readCores());
  }

  views(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.world.names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  /** As many units at once as there are cores: whoever has lost one cannot do it in time. */
  #allCoresPlan(): JobPlan {
    const cores = coresEach * this.#workers.length;
    const batch = defaultBatchFacts({ items: cores, unitItemsMax: 1 });
    const facts = defaultWorkflowFacts('everything', { batch, cores });
    return createJobPlan(
      { name: 'everything', kind: 'batch', submitter: 'client-1' },
      [{ facts, behaviour: { itemMs: 1_500 } }],
      { idempotencyKey: 'everything', timeoutMs: 7_000 },
    );
  }

  #readCores(): void {
    for (const node of this.#workers) {
      const worker = this.world.program(node)?.core?.jobs?.worker;
      const { total, free } = worker?.coreCounts() ?? { total: -1, free: -1 };
      this.#observe({ kind: 'coresSeen', node, total, free, runs: worker?.runningUnits() ?? -1 });
    }
  }

  #look(): void {
    this.#witness.readWorkerStates(this.#managers);
    this.world.timeline.after(lookMs, () => this.#look());
  }
}
