/**
 * Operator of simulated pools: creates pools, moves containers, drains nodes, deletes a pool. Retries through any
 * node.
 */
import type { Random } from '../../../../src/base/random.ts';
import type { NodeCore } from '../../../../src/node/core/node-core-types.ts';
import { PoolOperations } from '../../../../src/placement/operations/pool-operations.ts';
import { OperatorClient } from '../operator-client.ts';
import type { SimulatedNode } from '../../../../src/simulation/cluster/simulated-node.ts';
import type { WorkloadContext } from '../../checking/workload.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import { cellModuleName } from './cell-module.ts';
import type { PoolShape } from './cell-calls.ts';

export type PoolPlan = PoolShape & {
  readonly copies: number;
  /** The pool option: a container restarts on its node instead of moving. */
  readonly restart: boolean;
  /** The pool is deleted while the faults last. */
  readonly isDeletedLater: boolean;
};

export type PoolOperatorOptions = {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly random: Random;
  readonly plans: readonly PoolPlan[];
  readonly workers: readonly string[];
  /** Moves containers and drains nodes. */
  readonly isBusy: boolean;
  readonly observe: WorkloadContext['observe'];
  /** Pools of other clients, whose containers are moved too. */
  readonly otherPools: () => readonly PoolShape[];
  /** All of its containers have been opened. */
  readonly isServed: (plan: PoolPlan) => boolean;
};

const retryMs = 1_000;
const pollMs = 200;
const servedMsMax = 10_000;
const actionMsMax = 4_000;
const drainedMsMax = 9_000;
const deletionMsMax = 18_000;

export class PoolOperator {
  readonly #options: PoolOperatorOptions;
  readonly #client: OperatorClient;
  readonly #pools = new Set<PoolPlan>();
  readonly #created = new Set<PoolPlan>();
  readonly #deleting = new Set<PoolPlan>();
  #isDraining = false;
  #isStopped = false;

  constructor(options: PoolOperatorOptions) {
    this.#options = options;
    this.#client = new OperatorClient(options.world, options.random);
  }

  /** Pools that exist and are not being deleted. */
  pools(): readonly PoolPlan[] {
    return [...this.#pools];
  }

  start(): void {
    const { plans, isBusy, random } = this.#options;
    for (const plan of plans) this.#create(plan);
    for (const plan of plans)
      if (plan.isDeletedLater) this.#client.schedule(random.between(6_000, deletionMsMax), () => this.#delete(plan));
    if (isBusy) this.#act();
  }

  /** Activates all workers and does nothing else from now on. */
  stop(): void {
    this.#isStopped = true;
    for (const node of this.#options.workers) this.#activate(node);
  }

  #create(plan: PoolPlan): void {
    const { name, containers, copies, restart } = plan;
    const request = { name, module: cellModuleName, containers, copies, restart };
    this.#client.perform(
      (core, done) => operationsOf(core)?.create(request, done),
      (ok) => {
        if (ok) this.#created.add(plan);
        if (ok) this.#publish(plan);
        else this.#client.schedule(retryMs, () => this.#create(plan));
      },
    );
  }

  /** Clients may call the pool once it is served, or after `servedMsMax`. */
  #publish(plan: PoolPlan, waitedMs = 0): void {
    if (this.#deleting.has(plan)) return;
    if (this.#options.isServed(plan) || waitedMs >= servedMsMax) this.#pools.add(plan);
    else this.#client.schedule(pollMs, () => this.#publish(plan, waitedMs + pollMs));
  }

  /** Waits for the reply to the creation: a creation in flight would recreate the pool. */
  #delete(plan: PoolPlan): void {
    if (!this.#created.has(plan)) return this.#client.schedule(retryMs, () => this.#delete(plan));
    this.#deleting.add(plan);
    this.#pools.delete(plan);
    this.#client.perform(
      (core, done) => operationsOf(core)?.delete(plan.name, done),
      (ok, code) => {
        // UNKNOWN_POOL after a retry: the first attempt took effect, but its reply was lost.
        const isGone = ok || code === 'UNKNOWN_POOL';
        if (isGone) this.#options.observe({ kind: 'poolDeleted', pool: plan.name });
        else this.#client.schedule(retryMs, () => this.#delete(plan));
      },
    );
  }

  #act(): void {
    const { random } = this.#options;
    this.#client.schedule(random.between(200, actionMsMax), () => {
      if (this.#isStopped) return;
      if (random.chance(0.8) || this.#isDraining) this.#move();
      else this.#drain();
      this.#act();
    });
  }

  /** Only the leader can start a move. */
  #move(): void {
    const { world, random, workers, otherPools } = this.#options;
    const leader = world.names.find((name) => this.#client.core(name)?.control?.leadership.isLeading() === true);
    const pools = [...this.pools(), ...otherPools()];
    if (leader === undefined || pools.length === 0) return;
    const pool = random.pick(pools);
    const [container, to] = [random.below(pool.containers), random.pick(workers)];
    const id = this.#client.idOf(to);
    if (id === undefined) return;
    world.log.add('world', `operator: moves ${pool.name}/${container} to ${to}`);
    this.#client.performOn(
      leader,
      (core, done) => core.control?.placer?.requestMove(pool.name, container, id, 'admin', done),
      (ok) => world.log.add('world', `operator: the move of ${pool.name}/${container} ${ok ? 'starts' : 'is refused'}`),
    );
  }

  #drain(): void {
    const { random, workers } = this.#options;
    const node = random.pick(workers);
    if (!this.#client.drain(node)) return;
    this.#isDraining = true;
    this.#client.schedule(random.between(1_000, drainedMsMax), () => {
      this.#isDraining = false;
      this.#activate(node);
    });
  }

  #activate(node: string): void {
    this.#client.activate(node, () => this.#isStopped);
  }
}

function operationsOf({ control, clock }: NodeCore): PoolOperations | undefined {
  return control && new PoolOperations(control.registry, clock);
}
