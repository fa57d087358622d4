/**
 * Workload of pools: whole nodes with a cell module, clients, an operator, an observer. At the end dumps every
 * container and every table.
 */
import type { Clock } from '../../../../src/base/ports.ts';
import { Random } from '../../../../src/base/random.ts';
import type { ContainerCalls } from '../../../../src/containers/contract.ts';
import { decodeValue, encodeValue } from '../../../../src/messages/codec/value.ts';
import {
  simulatedAddress,
  aliveMembersOf,
  bootSimulatedNode,
  type SimulatedNode,
} from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadRun, WorkloadContext, Workload } from '../../checking/workload.ts';
import { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { cellModule, type CellDump } from './cell-module.ts';
import { PoolClients, type PoolClientsOptions } from './pool-clients.ts';
import type { ContainerLabel } from '../../../../src/simulation/cluster/registry-oracle.ts';
import { PoolOperator, type PoolPlan } from './pool-operator.ts';
import { poolLabel, poolNameOfLabel } from './pool-label.ts';
import { RecreatingClients } from './recreating-clients.ts';
import { TableLogCheck } from './table-log-check.ts';
import { PoolObserver } from './pool-observer.ts';

const managersCount = 3;
const clientsCount = 3;
const settledMs = 3_000;
/** Short, so that a run of a minute sees registrations run out. */
const registrationTtlMs = 8_000;
const dumpTimeoutMs = 6_000;
const tablesAfterMs = 8_000;
/** For so long after healing pools are made again; then those that are there stay. */
const roundsMs = 8_000;

const one: PoolPlan = { name: 'one', containers: 2, copies: 2, restart: true, isDeletedLater: false };
const two: PoolPlan = { name: 'two', containers: 6, copies: 2, restart: true, isDeletedLater: false };
const three: PoolPlan = { name: 'three', containers: 4, copies: 3, restart: false, isDeletedLater: false };
const doomed: PoolPlan = { name: 'doomed', containers: 3, copies: 2, restart: false, isDeletedLater: true };

type Kind = {
  readonly plans: readonly PoolPlan[];
  /** Containers are moved, nodes drained and activated. */
  readonly isBusy: boolean;
  /** Names of pools that are made and deleted again and again. */
  readonly again?: readonly string[];
  /** Rare paths are as rare as in real life: nothing fails for no reason. */
  readonly isPlain?: boolean;
};

export const poolWorkloads = {
  pools: (spec) => poolStage(spec, { plans: [two, three], isBusy: true }),
  poolsAgain: (spec) => poolStage(spec, { plans: [one], again: ['again-1', 'again-2'], isBusy: true }),
  poolsDeleted: (spec) => poolStage(spec, { plans: [two, doomed], isBusy: true }),
  poolsOfTwo: (spec) => poolStage(spec, { plans: [two], isBusy: false }),
  poolsUnhurt: (spec) => poolStage(spec, { plans: [two, three], isBusy: true, isPlain: true }),
} as const satisfies Readonly<Record<string, Workload>>;

function poolStage(spec: WorkloadContext, kind: Kind): WorkloadRun {
  const workload = new PoolWorkload(spec, kind);
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

class PoolWorkload {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #random: Random;
  readonly #witness: PoolObserver;
  readonly #tables: TableLogCheck;
  readonly #clients: PoolClients;
  readonly #operator: PoolOperator;
  readonly #rounds: RecreatingClients;
  #dumps = 0;

  constructor(
    { seed, names, detailed, sink, observe }: WorkloadContext,
    { plans, again = [], isBusy, isPlain = false }: Kind,
  ) {
    const random = new Random(seed).fork('pools');
    this.#observe = observe;
    this.#random = random.fork('end');
    const witness = new PoolObserver(() => this.world, observe);
    this.#witness = witness;
    const managers = names.slice(0, managersCount);
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, detailed, sink, rarities: !isPlain },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((manager) => simulatedAddress(this.world, manager)),
          roles: (one) => (managers.includes(one) ? ['manager'] : ['worker']),
          options: { registry: 'embedded', registrationTtlMs },
          modules: [cellModule(witness)],
          booted: (node) => {
            witness.booted(context.name, node);
            this.#tables.booted(context.name, node);
          },
        }),
    });
    const { world } = this;
    this.#tables = new TableLogCheck(world, observe);
    const workers = names.slice(managersCount);
    this.#operator = new PoolOperator({
      ...{ world, random: random.fork('operator'), plans, workers, isBusy, observe },
      others: () => this.#rounds.pools().map(({ name, containers }) => ({ name: poolNameOfLabel(name), containers })),
      isServed: (plan) => this.#isServed(plan),
    });
    const acknowledged: PoolClientsOptions['acknowledged'] = (...call) => witness.acknowledged(...call);
    this.#clients = new PoolClients({
      ...{
        world,
        random: random.fork('clients'),
        count: clientsCount,
        hasLongTimeouts: isPlain,
        observe,
        acknowledged,
      },
      pools: () => this.#operator.pools(),
      entryPoint: (name) => this.#entryPoint(name),
    });
    this.#rounds = new RecreatingClients({
      ...{ world, random: random.fork('rounds'), names: again, observe, acknowledged },
      nextRequest: () => this.#clients.nextRequest(),
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => {
      this.#operator.start();
      this.#clients.start();
      this.#rounds.start();
    });
  }

  healed(): void {
    this.#operator.stop();
    this.world.timeline.after(roundsMs, () => this.#rounds.finish());
  }

  rest(): void {
    this.#clients.stop();
    this.#witness.readAllReplicas();
    this.#observe({ kind: 'dumping' });
    this.#observe({ kind: 'poolsMissing', names: this.#rounds.missing() });
    for (const { name, containers } of [...this.#operator.pools(), ...this.#rounds.pools()])
      for (let container = 0; container < containers; container++) this.#dump({ pool: name, container });
    this.world.timeline.after(tablesAfterMs, () => this.#askAll());
  }

  views(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.world.names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  #isServed({ name: pool, containers }: PoolPlan): boolean {
    const all = Array.from({ length: containers }, (_, container) => this.#witness.oracle.record({ pool, container }));
    return all.every((record) => record?.phase === 'serving');
  }

  #entryPoint(name: string): { readonly calls: ContainerCalls; readonly clock: Clock } | undefined {
    const core = this.world.program(name)?.core;
    return core?.containers && { calls: core.containers.calls, clock: core.clock };
  }

  #dump(name: ContainerLabel): void {
    const by = this.#random.pick(this.world.names);
    const silent = (why: string): void => this.#observe({ kind: 'silent', ...name, by, why });
    const [door, life] = [this.#entryPoint(by), this.world.host(by).process];
    if (door === undefined || life === undefined) return silent('the node is not ready');
    const counter = ++this.#dumps;
    const call = {
      ...{
        pool: poolNameOfLabel(name.pool),
        method: 'dump',
        args: encodeValue([]).slice(),
        route: { id: name.container },
      },
      ...{ id: { session: 'end', generation: 1, counter }, lowestPending: 1, timeoutMs: dumpTimeoutMs },
    };
    life.run(() => {
      door.calls.call(call, (outcome) => {
        if (!outcome.ok) return silent(`${outcome.error.code}: ${outcome.error.message}`);
        if (!('value' in outcome.value)) return silent('not a plain answer');
        this.#observe({ kind: 'dumped', ...name, ...(decodeValue(outcome.value.value) as CellDump) });
      });
    });
  }

  #askAll(): void {
    const nodes = this.world.names.map((node) => ({ node, parts: this.world.program(node)?.core?.containers }));
    const tables = nodes.map(({ node, parts }) => {
      return { node, version: parts?.table.version ?? -1, hash: parts?.table.hash() ?? 'none' };
    });
    this.#observe({ kind: 'tables', tables });
    for (const { node, parts } of nodes) {
      const table = new Map(parts?.table.pools().map(({ name, record }) => [name, poolLabel(name, record.params)]));
      const known = [...table.values()];
      const served = parts?.hosting?.containers().map(({ pool }) => table.get(pool) ?? pool) ?? [];
      this.#observe({ kind: 'poolsSeen', node, pools: [...new Set([...known, ...served])] });
    }
  }
}
