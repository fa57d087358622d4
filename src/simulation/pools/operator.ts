/**
 * The operator of simulated pools: creates them, has containers moved, drains nodes and lets them work again, and deletes
 * a pool that is meant to go. It acts through whichever node it likes, and goes on when that one fails.
 */
import type { Random } from '../../base/random.ts';
import type { NodeCore } from '../../node/core.ts';
import { PoolOperations } from '../../placement/operations/pool-operations.ts';
import { AdminHand } from '../admin-hand.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';
import { cellModuleName } from './cell-module.ts';
import type { PoolShape } from './cell-wish.ts';

export type PoolPlan = PoolShape & {
  readonly copies: number;
  /** Comes back on the same node with `restart`. */
  readonly restart: boolean;
  /** Is deleted while the faults last. */
  readonly isDoomed: boolean;
};

export type OperatorSpec = {
  readonly world: World<HostedNode>;
  readonly random: Random;
  readonly plans: readonly PoolPlan[];
  readonly workers: readonly string[];
  /** Moves containers, drains nodes. */
  readonly isBusy: boolean;
  readonly observe: StageSpec['observe'];
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

export class Operator {
  readonly #spec: OperatorSpec;
  readonly #hand: AdminHand;
  readonly #pools = new Set<PoolPlan>();
  readonly #made = new Set<PoolPlan>();
  readonly #doomed = new Set<PoolPlan>();
  #isDraining = false;
  #isOver = false;

  constructor(spec: OperatorSpec) {
    this.#spec = spec;
    this.#hand = new AdminHand(spec.world, spec.random);
  }

  /** Those that are there, and are to stay for now. */
  pools(): readonly PoolPlan[] {
    return [...this.#pools];
  }

  start(): void {
    const { plans, isBusy, random } = this.#spec;
    for (const plan of plans) this.#create(plan);
    for (const plan of plans)
      if (plan.isDoomed) this.#hand.later(random.between(6_000, doomMsMax), () => this.#doom(plan));
    if (isBusy) this.#act();
  }

  /** Everybody is to work again, and nothing else is touched from now on. */
  finish(): void {
    this.#isOver = true;
    for (const node of this.#spec.workers) this.#activate(node);
  }

  #create(plan: PoolPlan): void {
    const { name, containers, copies, restart } = plan;
    const request = { name, module: cellModuleName, containers, copies, restart };
    this.#hand.order(
      (core, done) => operationsOf(core)?.create(request, done),
      (ok) => {
        if (ok) this.#made.add(plan);
        if (ok) this.#offer(plan);
        else this.#hand.later(againMs, () => this.#create(plan));
      },
    );
  }

  /** Clients may call it when it can be called; if that takes long they may see that too. */
  #offer(plan: PoolPlan, waitedMs = 0): void {
    if (this.#doomed.has(plan)) return;
    if (this.#spec.isServed(plan) || waitedMs >= servedMsMax) this.#pools.add(plan);
    else this.#hand.later(lookMs, () => this.#offer(plan, waitedMs + lookMs));
  }

  /** Only what surely has been made: a creation that is still under way would make it again. */
  #doom(plan: PoolPlan): void {
    if (!this.#made.has(plan)) return this.#hand.later(againMs, () => this.#doom(plan));
    this.#doomed.add(plan);
    this.#pools.delete(plan);
    this.#hand.order(
      (core, done) => operationsOf(core)?.delete(plan.name, done),
      (ok, code) => {
        // Asked again because nobody answered: it had happened.
        const isGone = ok || code === 'UNKNOWN_POOL';
        if (isGone) this.#spec.observe({ kind: 'poolDeleted', pool: plan.name });
        else this.#hand.later(againMs, () => this.#doom(plan));
      },
    );
  }

  #act(): void {
    const { random } = this.#spec;
    this.#hand.later(random.between(200, actsMsMax), () => {
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
    this.#hand.orderOn(
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
    this.#hand.later(random.between(1_000, drainedMsMax), () => {
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
