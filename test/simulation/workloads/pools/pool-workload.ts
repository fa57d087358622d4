/**
 * Workload of pools: whole nodes with the cell module, clients, an operator and an observer. At the end it reads every
 * container and every address table.
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
import { NodeStops } from './node-stops.ts';
import { PoolOperator, type PoolPlan } from './pool-operator.ts';
import { poolLabel, poolNameOfLabel } from './pool-label.ts';
import { RecreatingClients } from './recreating-clients.ts';
import { TableLogCheck } from './table-log-check.ts';
import { PoolObserver } from './pool-observer.ts';

const managersCount = 3;
const clientsCount = 3;
const settledMs = 3_000;
/** Short, so that registrations expire in a run of a minute. */
const registrationTtlMs = 8_000;
const dumpTimeoutMs = 6_000;
const tablesAfterMs = 8_000;
/** For so long after healing pools are deleted and recreated; then they stay. */
const recreationMs = 8_000;

const one: PoolPlan = { name: 'one', containers: 2, copies: 2, restart: true, isDeletedLater: false };
const two: PoolPlan = { name: 'two', containers: 6, copies: 2, restart: true, isDeletedLater: false };
const three: PoolPlan = { name: 'three', containers: 4, copies: 3, restart: false, isDeletedLater: false };
const deletedPool: PoolPlan = { name: 'doomed', containers: 3, copies: 2, restart: false, isDeletedLater: true };

type PoolWorkloadKind = {
  readonly plans: readonly PoolPlan[];
  /** Containers are moved, nodes drained and activated. */
  readonly isBusy: boolean;
  /** Names of pools that are deleted and recreated. */
  readonly recreated?: readonly string[];
  /** Failpoints never fire. */
  readonly withoutFailpoints?: boolean;
  /** Nodes are stopped in order and started again. */
  readonly hasStops?: boolean;
};

export const poolWorkloads = {
  pools: (context) => runPools(context, { plans: [two, three], isBusy: true }),
  poolsRecreated: (context) => runPools(context, { plans: [one], recreated: ['again-1', 'again-2'], isBusy: true }),
  poolsDeleted: (context) => runPools(context, { plans: [two, deletedPool], isBusy: true }),
  poolsTwoReplicas: (context) => runPools(context, { plans: [two], isBusy: false }),
  poolsStopped: (context) =>
    runPools(context, { plans: [two, three], isBusy: false, withoutFailpoints: true, hasStops: true }),
  poolsFaultFree: (context) => runPools(context, { plans: [two, three], isBusy: true, withoutFailpoints: true }),
} as const satisfies Readonly<Record<string, Workload>>;

function runPools(context: WorkloadContext, kind: PoolWorkloadKind): WorkloadRun {
  const workload = new PoolWorkload(context, kind);
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

class PoolWorkload {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly #observe: WorkloadContext['observe'];
  readonly #random: Random;
  readonly #observer: PoolObserver;
  readonly #tables: TableLogCheck;
  readonly #clients: PoolClients;
  readonly #operator: PoolOperator;
  readonly #recreating: RecreatingClients;
  readonly #stops: NodeStops | undefined;
  #dumps = 0;

  constructor(
    { seed, names, detailed, sink, observe }: WorkloadContext,
    { plans, recreated = [], isBusy, withoutFailpoints = false, hasStops = false }: PoolWorkloadKind,
  ) {
    const random = new Random(seed).fork('pools');
    this.#observe = observe;
    this.#random = random.fork('end');
    const observer = new PoolObserver(() => this.world, observe);
    this.#observer = observer;
    const managers = names.slice(0, managersCount);
    this.world = new SimulatedWorld<SimulatedNode>({
      ...{ seed, names, detailed, sink, failpoints: !withoutFailpoints },
      boot: (ports, context) =>
        bootSimulatedNode(ports, context, {
          join: managers.map((manager) => simulatedAddress(this.world, manager)),
          roles: (one) => (managers.includes(one) ? ['manager'] : ['worker']),
          options: { registry: 'embedded', registrationTtlMs },
          modules: [cellModule(observer)],
          booted: (node) => {
            observer.booted(context.name, node);
            this.#tables.booted(context.name, node);
          },
        }),
    });
    const { world } = this;
    this.#tables = new TableLogCheck(world, observe);
    const workers = names.slice(managersCount);
    this.#operator = new PoolOperator({
      ...{ world, random: random.fork('operator'), plans, workers, isBusy, observe },
      otherPools: () =>
        this.#recreating.pools().map(({ name, containers }) => ({ name: poolNameOfLabel(name), containers })),
      isServed: (plan) => this.#isServed(plan),
    });
    const acknowledged: PoolClientsOptions['acknowledged'] = (...call) => observer.acknowledged(...call);
    this.#clients = new PoolClients({
      ...{
        world,
        random: random.fork('clients'),
        count: clientsCount,
        hasLongTimeouts: withoutFailpoints,
        observe,
        acknowledged,
      },
      pools: () => this.#operator.pools(),
      entryPoint: (name) => this.#entryPoint(name),
    });
    this.#stops = hasStops
      ? new NodeStops({ world, random: random.fork('stops'), oracle: observer.oracle, observe })
      : undefined;
    this.#recreating = new RecreatingClients({
      ...{ world, random: random.fork('rounds'), names: recreated, observe, acknowledged },
      nextRequest: () => this.#clients.nextRequest(),
    });
  }

  start(): void {
    this.world.timeline.after(settledMs, () => {
      this.#operator.start();
      this.#clients.start();
      this.#recreating.start();
      this.#stops?.start();
    });
  }

  healed(): void {
    this.#operator.stop();
    this.#stops?.stop();
    this.world.timeline.after(recreationMs, () => this.#recreating.stop());
  }

  stopWork(): void {
    this.#clients.stop();
    this.#observer.readAllReplicas();
    this.#observe({ kind: 'dumpStarted' });
    this.#observe({ kind: 'poolsMissing', names: this.#recreating.missing() });
    for (const { name, containers } of [...this.#operator.pools(), ...this.#recreating.pools()])
      for (let container = 0; container < containers; container++) this.#dump({ pool: name, container });
    this.world.timeline.after(tablesAfterMs, () => this.#readTables());
  }

  aliveViews(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.world.names.map((name) => [name, aliveMembersOf(this.world.program(name))]));
  }

  #isServed({ name: pool, containers }: PoolPlan): boolean {
    const all = Array.from({ length: containers }, (_, container) => this.#observer.oracle.record({ pool, container }));
    return all.every((record) => record?.phase === 'serving');
  }

  #entryPoint(name: string): { readonly calls: ContainerCalls; readonly clock: Clock } | undefined {
    const core = this.world.program(name)?.core;
    if (core?.acceptsCalls() !== true) return undefined;
    return core.containers && { calls: core.containers.calls, clock: core.clock };
  }

  #dump(name: ContainerLabel): void {
    const by = this.#random.pick(this.world.names);
    const unreachable = (reason: string): void => this.#observe({ kind: 'containerUnreachable', ...name, by, reason });
    const [access, hostProcess] = [this.#entryPoint(by), this.world.host(by).process];
    if (access === undefined || hostProcess === undefined) return unreachable('the node is not ready');
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
    hostProcess.run(() => {
      access.calls.call(call, (outcome) => {
        if (!outcome.ok) return unreachable(`${outcome.error.code}: ${outcome.error.message}`);
        if (!('value' in outcome.value)) return unreachable('the reply is not a single value');
        this.#observe({ kind: 'dumped', ...name, ...(decodeValue(outcome.value.value) as CellDump) });
      });
    });
  }

  #readTables(): void {
    const nodes = this.world.names.map((node) => ({ node, parts: this.world.program(node)?.core?.containers }));
    const tables = nodes.map(({ node, parts }) => {
      return { node, version: parts?.table.version ?? -1, hash: parts?.table.hash() ?? 'none' };
    });
    this.#observe({ kind: 'tables', tables });
    for (const { node, parts } of nodes) {
      const table = new Map(parts?.table.pools().map(({ name, record }) => [name, poolLabel(name, record.params)]));
      const known = [...table.values()];
      const served = parts?.hosting?.containers().map(({ pool }) => table.get(pool) ?? pool) ?? [];
      this.#observe({ kind: 'poolsRead', node, pools: [...new Set([...known, ...served])] });
    }
  }
}
