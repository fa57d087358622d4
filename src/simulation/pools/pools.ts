/**
 * The workload of pools: whole nodes, three managers and the rest workers, that run a module of cells. Clients call it
 * through all of them, an operator (operator.ts) makes the pools and troubles them, and a witness keeps everybody's word.
 * When all has been well for a while, every container is asked what it holds, and every node what it knows.
 */
import type { Clock } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import type { ContainerCalls } from '../../containers/contract.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import { addressOf, aliveIn, bootHostedNode, type HostedNode } from '../hosted-node.ts';
import type { Stage, StageSpec, Workload } from '../observation.ts';
import { World } from '../world.ts';
import { cellModule, type Dump } from './cell-module.ts';
import { PoolClients, type PoolClientsSpec } from './clients.ts';
import type { ContainerName } from './observation.ts';
import { Operator, type PoolPlan } from './operator.ts';
import { labelOf, nameIn } from './pool-label.ts';
import { PoolRounds } from './rounds.ts';
import { TableWatch } from './table-watch.ts';
import { PoolWitness } from './witness.ts';

const managersCount = 3;
const clientsCount = 3;
const settledMs = 3_000;
/** Short, so that a run of a minute sees registrations run out. */
const registrationTtlMs = 8_000;
const dumpTimeoutMs = 6_000;
const tablesAfterMs = 8_000;
/** For so long after healing pools are made again; then those that are there stay. */
const roundsMs = 8_000;

const one: PoolPlan = { name: 'one', containers: 2, copies: 2, restart: true, isDoomed: false };
const two: PoolPlan = { name: 'two', containers: 6, copies: 2, restart: true, isDoomed: false };
const three: PoolPlan = { name: 'three', containers: 4, copies: 3, restart: false, isDoomed: false };
const doomed: PoolPlan = { name: 'doomed', containers: 3, copies: 2, restart: false, isDoomed: true };

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

function poolStage(spec: StageSpec, kind: Kind): Stage {
  const workload = new Pools(spec, kind);
  return {
    world: workload.world,
    clusterOf: () => 'simulated',
    start: () => workload.start(),
    healed: () => workload.healed(),
    rest: () => workload.rest(),
    views: () => workload.views(),
    durable: () => 0,
  };
}

class Pools {
  readonly world: World<HostedNode>;
  readonly #observe: StageSpec['observe'];
  readonly #random: Random;
  readonly #witness: PoolWitness;
  readonly #tables: TableWatch;
  readonly #clients: PoolClients;
  readonly #operator: Operator;
  readonly #rounds: PoolRounds;
  #dumps = 0;

  constructor(
    { seed, names, detailed, sink, observe }: StageSpec,
    { plans, again = [], isBusy, isPlain = false }: Kind,
  ) {
    const random = new Random(seed).fork('pools');
    this.#observe = observe;
    this.#random = random.fork('end');
    const witness = new PoolWitness(() => this.world, observe);
    this.#witness = witness;
    const managers = names.slice(0, managersCount);
    this.world = new World<HostedNode>({
      ...{ seed, names, detailed, sink, rarities: !isPlain },
      boot: (ports, context) =>
        bootHostedNode(ports, context, {
          join: managers.map((manager) => addressOf(this.world, manager)),
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
    this.#tables = new TableWatch(world, observe);
    const workers = names.slice(managersCount);
    this.#operator = new Operator({
      ...{ world, random: random.fork('operator'), plans, workers, isBusy, observe },
      others: () => this.#rounds.pools().map(({ name, containers }) => ({ name: nameIn(name), containers })),
      isServed: (plan) => this.#isServed(plan),
    });
    const acknowledged: PoolClientsSpec['acknowledged'] = (...call) => witness.acknowledged(...call);
    this.#clients = new PoolClients({
      ...{ world, random: random.fork('clients'), count: clientsCount, arePatient: isPlain, observe, acknowledged },
      pools: () => this.#operator.pools(),
      door: (name) => this.#door(name),
    });
    this.#rounds = new PoolRounds({
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
    this.#operator.finish();
    this.world.timeline.after(roundsMs, () => this.#rounds.finish());
  }

  rest(): void {
    this.#clients.rest();
    this.#witness.lookAtAll();
    this.#observe({ kind: 'dumping' });
    this.#observe({ kind: 'poolsMissing', names: this.#rounds.missing() });
    for (const { name, containers } of [...this.#operator.pools(), ...this.#rounds.pools()])
      for (let container = 0; container < containers; container++) this.#dump({ pool: name, container });
    this.world.timeline.after(tablesAfterMs, () => this.#askAll());
  }

  views(): ReadonlyMap<string, readonly string[]> {
    return new Map(this.world.names.map((name) => [name, aliveIn(this.world.program(name))]));
  }

  #isServed({ name: pool, containers }: PoolPlan): boolean {
    const all = Array.from({ length: containers }, (_, container) => this.#witness.truth.record({ pool, container }));
    return all.every((record) => record?.phase === 'serving');
  }

  #door(name: string): { readonly calls: ContainerCalls; readonly clock: Clock } | undefined {
    const core = this.world.program(name)?.core;
    return core?.containers && { calls: core.containers.calls, clock: core.clock };
  }

  #dump(name: ContainerName): void {
    const by = this.#random.pick(this.world.names);
    const silent = (why: string): void => this.#observe({ kind: 'silent', ...name, by, why });
    const [door, life] = [this.#door(by), this.world.host(by).life];
    if (door === undefined || life === undefined) return silent('the node is not ready');
    const counter = ++this.#dumps;
    const call = {
      ...{ pool: nameIn(name.pool), method: 'dump', args: encodeValue([]).slice(), route: { id: name.container } },
      ...{ id: { session: 'end', generation: 1, counter }, lowestPending: 1, timeoutMs: dumpTimeoutMs },
    };
    life.enter(() => {
      door.calls.call(call, (outcome) => {
        if (!outcome.ok) return silent(`${outcome.error.code}: ${outcome.error.message}`);
        if (!('value' in outcome.value)) return silent('not a plain answer');
        this.#observe({ kind: 'dumped', ...name, ...(decodeValue(outcome.value.value) as Dump) });
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
      const table = new Map(parts?.table.pools().map(({ name, record }) => [name, labelOf(name, record.params)]));
      const known = [...table.values()];
      const served = parts?.hosting?.containers().map(({ pool }) => table.get(pool) ?? pool) ?? [];
      this.#observe({ kind: 'poolsSeen', node, pools: [...new Set([...known, ...served])] });
    }
  }
}
