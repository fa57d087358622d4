/**
 * Workload of jobs: whole nodes with fake runners, clients, an operator and an observer. At the end it reads every job
 * and the free cores of every worker.
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
const pollMs = 250;
/** Short, so that registrations and leases expire in a run of half a minute. */
const registrationTtlMs = 8_000;
const jobLeaseMs = 4_000;
/** The units of an isolated worker end by themselves; clocks may be slow, and processes take a while to end. */
const cancelGraceMs = 8_000;
const coresAfterMs = 9_000;

type JobWorkloadKind = {
  /** The operator drains and restarts workers. */
  readonly isBusy: boolean;
  /** Failpoints never fire, and no fake code is troublesome. */
  readonly isHealthy: boolean;
  readonly pausesMs: readonly number[];
  readonly burstSizes: readonly number[];
  /** The share of jobs that run longer than a lease. */
  readonly longChance: number;
};

const usual: JobWorkloadKind = {
  isBusy: true,
  isHealthy: false,
  pausesMs: [250, 500, 1_200],
  burstSizes: [0, 10, 25],
  longChance: 0,
};

export const jobWorkloads = {
  jobs: (context) => runJobs(context, usual),
  jobsLong: (context) => runJobs(context, { ...usual, pausesMs: [700, 1_000], burstSizes: [0], longChance: 0.6 }),
  jobBursts: (context) =>
    runJobs(context, { ...usual, isBusy: false, isHealthy: true, pausesMs: [400], burstSizes: [40, 80] }),
} as const satisfies Readonly<Record<string, Workload>>;

function runJobs(context: WorkloadContext, kind: JobWorkloadKind): WorkloadRun {
  const workload = new JobWorkload(context, kind);
  return {
    world: workload.world,
    clusterOf: () => 'simulated',
    start: () => workload.start(),
    healed: () => workload.healed(),
    stopWork: () => workload.stopWork(),
    aliveViews: () => workload.aliveViews(),
    durableValue: () => 0,
  };
}

class JobWorkload {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #isBusy: boolean;
  readonly #managers: readonly string[];
  readonly #workers: readonly string[];
  readonly #observer: JobObserver;
  readonly #clients: JobClients;
  readonly #operator: JobOperator;

  constructor(
    { seed, names, detailed, sink, observe }: WorkloadContext,
    { isBusy, isHealthy, pausesMs, burstSizes, longChance }: JobWorkloadKind,
  ) {
    const random = new Random(seed).fork('jobs');
    this.#observe = observe;
    this.#isBusy = isBusy;
    const observer = new JobObserver(() => this.world, coresEach, observe);
    this.#observer = observer;
    const managers = names.slice(0, managersCount);
    this.#managers = managers;
    this.#workers = names.slice(managersCount);
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, detailed, sink, failpoints: !isHealthy },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((manager) => simulatedAddress(this.world, manager)),
          roles: (one) => (managers.includes(one) ? ['manager'] : ['worker']),
          options: { registry: 'embedded', registrationTtlMs, jobLeaseMs },
          jobs: { cores: coresEach, runners: (inner, node) => observer.runners(node, inner) },
          wrap: (streams, datagrams) => ({ streams: tapJobMessages(streams, context.name, observer), datagrams }),
        }),
    });
    const { world } = this;
    world.watch((event) => {
      if (event.kind === 'stopped') observer.nodeStopped(event.node);
    });
    this.#operator = new JobOperator({ world, random: random.fork('operator'), workers: this.#workers });
    const pauseMs = random.fork('pause').pick(pausesMs);
    this.#clients = new JobClients({
      ...{
        world,
        random: random.fork('clients'),
        plans: new JobPlanGenerator(random.fork('plans'), isHealthy, longChance),
        observe,
      },
      ...{ pauseMs, burstSize: random.fork('crowd').pick(burstSizes), cancelGraceMs },
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => {
      this.#clients.start();
      if (this.#isBusy) this.#operator.start();
    });
    this.#readWorkerStates();
  }

  healed(): void {
    this.#operator.stop();
    this.#clients.stopSubmitting();
  }

  stopWork(): void {
    this.#observe({ kind: 'lastReadStarted' });
    this.#clients.readAllJobs();
    this.#clients.submit(this.#allCoresPlan());
    this.world.timeline.after(coresAfterMs, () => this.#readCores());
  }

  aliveViews(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.world.names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  /** As many units at once as there are cores: it times out if a worker has leaked a core. */
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
      this.#observe({ kind: 'coresRead', node, total, free, runs: worker?.runningUnits() ?? -1 });
    }
  }

  #readWorkerStates(): void {
    this.#observer.readWorkerStates(this.#managers);
    this.world.timeline.after(pollMs, () => this.#readWorkerStates());
  }
}
