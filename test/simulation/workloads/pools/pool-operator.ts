/** Operator of simulated pools: creates, moves containers, drains nodes, deletes a pool. Retries through any node. */
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
  /** Comes back on the same node with `restart`. */
  readonly restart: boolean;
  /** Is deleted while the faults last. */
  readonly isDeletedLater: boolean;
};

export type PoolOperatorOptions = {
  readonly world: SimulatedWorld<SimulatedNode>;
  readonly random: Random;
  readonly plans: readonly PoolPlan[];
  readonly workers: readonly string[];
  /** Moves containers, drains nodes. */
  readonly isBusy: boolean;
  readonly observe: WorkloadContext['observe'];
  /** Pools of others, whose containers are moved as well. */
  readonly others: () => readonly PoolShape[];
  /** All of its containers have been opened. */
  readonly isServed: (plan: PoolPlan) => boolean;
};

const againMs = 1_000;
const lookMs = 200;
const servedMsMax = 10_000;
const actsMsMax = 4_000;
const drainedMsMax = 9_000;
const doomMsMax = 18_000;

export class PoolOperator {
  readonly #spec: PoolOperatorOptions;
  readonly #hand: OperatorClient;
  readonly #pools = new Set<PoolPlan>();
  readonly #made = new Set<PoolPlan>();
  readonly #doomed = new Set<PoolPlan>();
  #isDraining = false;
  #isOver = false;

  constructor(spec: PoolOperatorOptions) {
    this.#spec = spec;
    this.#hand = new OperatorClient(spec.world, spec.random);
  }

  /** Those that are there, and are to stay for now. */
  pools(): readonly PoolPlan[] {
    return [...this.#pools];
  }

  start(): void {
    const { plans, isBusy, random } = this.#spec;
    for (const plan of plans) this.#create(plan);
    for (const plan of plans)
      if (plan.isDeletedLater) this.#hand.schedule(random.between(6_000, doomMsMax), () => this.#deleteLater(plan));
    if (isBusy) this.#act();
  }

  /** Everybody is to work again, and nothing else is touched from now on. */
  stop(): void {
    this.#isOver = true;
    for (const node of this.#spec.workers) this.#activate(node);
  }

  #create(plan: PoolPlan): void {
    const { name, containers, copies, restart } = plan;
    const request = { name, module: cellModuleName, containers, copies, restart };
    this.#hand.perform(
      (core, done) => operationsOf(core)?.create(request, done),
      (ok) => {
        if (ok) this.#made.add(plan);
        if (ok) this.#publish(plan);
        else this.#hand.schedule(againMs, () => this.#create(plan));
      },
    );
  }

  /** Clients may call it when it can be called; if that takes long they may see that too. */
  #publish(plan: PoolPlan, waitedMs = 0): void {
    if (this.#doomed.has(plan)) return;
    if (this.#spec.isServed(plan) || waitedMs >= servedMsMax) this.#pools.add(plan);
    else this.#hand.schedule(lookMs, () => this.#publish(plan, waitedMs + lookMs));
  }

  /** Only what surely has been made: a creation that is still under way would make it again. */
  #deleteLater(plan: PoolPlan): void {
    if (!this.#made.has(plan)) return this.#hand.schedule(againMs, () => this.#deleteLater(plan));
    this.#doomed.add(plan);
    this.#pools.delete(plan);
    this.#hand.perform(
      (core, done) => operationsOf(core)?.delete(plan.name, done),
      (ok, code) => {
        // Asked again because nobody answered: it had happened.
        const isGone = ok || code === 'UNKNOWN_POOL';
        if (isGone) this.#spec.observe({ kind: 'poolDeleted', pool: plan.name });
        else this.#hand.schedule(againMs, () => this.#deleteLater(plan));
      },
    );
  }

  #act(): void {
    const { random } = this.#spec;
    this.#hand.schedule(random.between(200, actsMsMax), () => {
      if (this.#isOver) return;
      if (random.chance(0.8) || this.#isDraining) this.#move();
      else this.#drain();
      this.#act();
    });
  }

  /** Only whoever leads can begin a move. */
  #move(): void {
    const { world, random, workers, others } = this.#spec;
    const leader = world.names.find((name) => this.#hand.core(name)?.control?.leadership.isLeading() === true);
    const pools = [...this.pools(), ...others()];
    if (leader === undefined || pools.length === 0) return;
    const pool = random.pick(pools);
    const [container, to] = [random.below(pool.containers), random.pick(workers)];
    const id = this.#hand.idOf(to);
    if (id === undefined) return;
    world.log.add('world', `operator: ${pool.name}/${container} is to move to ${to}`);
    this.#hand.performOn(
      leader,
      (core, done) => core.control?.placer?.requestMove(pool.name, container, id, 'admin', done),
      (ok) => world.log.add('world', `operator: the move of ${pool.name}/${container} ${ok ? 'begins' : 'is refused'}`),
    );
  }

  #drain(): void {
    const { random, workers } = this.#spec;
    const node = random.pick(workers);
    if (!this.#hand.drain(node)) return;
    this.#isDraining = true;
    this.#hand.schedule(random.between(1_000, drainedMsMax), () => {
      this.#isDraining = false;
      this.#activate(node);
    });
  }

  #activate(node: string): void {
    this.#hand.activate(node, () => this.#isOver);
  }
}

function operationsOf({ control, clock }: NodeCore): PoolOperations | undefined {
  return control && new PoolOperations(control.registry, clock);
}
