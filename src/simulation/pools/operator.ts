/**
 * The operator of simulated pools: creates them, has containers moved, drains nodes and lets them work again, and deletes
 * a pool that is meant to go. It acts through whichever node it likes, and goes on when that one fails.
 */
import type { Done, ErrorCode } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { NodeCore } from '../../node/core.ts';
import { PoolOperations } from '../../registry/placement/pool-operations.ts';
import { activateNode } from '../../registry/registration/activate.ts';
import type { HostedNode } from '../hosted-node.ts';
import type { StageSpec } from '../observation.ts';
import type { World } from '../world.ts';
import { cellModuleName } from './cell-module.ts';
import type { PoolShape } from './clients.ts';

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
  /** All of its containers have been opened. */
  readonly isServed: (plan: PoolPlan) => boolean;
};

type Ended = (ok: boolean, code?: ErrorCode) => void;

const againMs = 1_000;
const lookMs = 200;
const servedMsMax = 10_000;
const answerMsMax = 12_000;
const actsMsMax = 4_000;
const drainedMsMax = 9_000;
const doomMsMax = 18_000;

export class Operator {
  readonly #spec: OperatorSpec;
  readonly #ids = new Map<string, NodeId>();
  readonly #pools = new Set<PoolPlan>();
  readonly #made = new Set<PoolPlan>();
  readonly #doomed = new Set<PoolPlan>();
  #isDraining = false;
  #isOver = false;

  constructor(spec: OperatorSpec) {
    this.#spec = spec;
  }

  /** Those that are there, and are to stay for now. */
  pools(): readonly PoolPlan[] {
    return [...this.#pools];
  }

  start(): void {
    const { plans, isBusy, random } = this.#spec;
    for (const plan of plans) this.#create(plan);
    for (const plan of plans) if (plan.isDoomed) this.#later(random.between(6_000, doomMsMax), () => this.#doom(plan));
    if (isBusy) this.#act();
  }

  /** Everybody is to work again, and nothing else is touched from now on. */
  finish(): void {
    this.#isOver = true;
    this.#activateAll();
  }

  #create(plan: PoolPlan): void {
    const { name, containers, copies, restart } = plan;
    const request = { name, module: cellModuleName, containers, copies, restart };
    this.#through(
      (core, done) => operationsOf(core)?.create(request, done),
      (ok) => {
        if (ok) this.#made.add(plan);
        if (ok) this.#offer(plan);
        else this.#later(againMs, () => this.#create(plan));
      },
    );
  }

  /** Clients may call it when it can be called; if that takes long they may see that too. */
  #offer(plan: PoolPlan, waitedMs = 0): void {
    if (this.#doomed.has(plan)) return;
    if (this.#spec.isServed(plan) || waitedMs >= servedMsMax) this.#pools.add(plan);
    else this.#later(lookMs, () => this.#offer(plan, waitedMs + lookMs));
  }

  /** Only what surely has been made: a creation that is still under way would make it again. */
  #doom(plan: PoolPlan): void {
    if (!this.#made.has(plan)) return this.#later(againMs, () => this.#doom(plan));
    this.#doomed.add(plan);
    this.#pools.delete(plan);
    this.#through(
      (core, done) => operationsOf(core)?.delete(plan.name, done),
      (ok, code) => {
        // Asked again because nobody answered: it had happened.
        const isGone = ok || code === 'UNKNOWN_POOL';
        if (isGone) this.#spec.observe({ kind: 'poolDeleted', pool: plan.name });
        else this.#later(againMs, () => this.#doom(plan));
      },
    );
  }

  #act(): void {
    const { random } = this.#spec;
    this.#later(random.between(200, actsMsMax), () => {
      if (this.#isOver) return;
      if (random.chance(0.8) || this.#isDraining) this.#move();
      else this.#drain();
      this.#act();
    });
  }

  /** Only whoever leads can begin a move. */
  #move(): void {
    const { world, random, workers } = this.#spec;
    const leader = world.names.find((name) => this.#core(name)?.control?.leadership.isLeading() === true);
    if (leader === undefined || this.#pools.size === 0) return;
    const pool = random.pick(this.pools());
    const [container, to] = [random.below(pool.containers), random.pick(workers)];
    const id = this.#idOf(to);
    if (id === undefined) return;
    world.log.add('world', `operator: ${pool.name}/${container} is to move to ${to}`);
    this.#on(
      leader,
      (core, done) => core.control?.placer?.requestMove(pool.name, container, id, 'admin', done),
      (ok) => world.log.add('world', `operator: the move of ${pool.name}/${container} ${ok ? 'begins' : 'is refused'}`),
    );
  }

  #drain(): void {
    const { world, random, workers } = this.#spec;
    const node = random.pick(workers);
    const id = this.#idOf(node);
    if (id === undefined) return;
    this.#isDraining = true;
    world.log.add('world', `operator: ${node} is to be drained`);
    this.#through((core, done) => core.control?.operations.drain(id, {}, done));
    this.#later(random.between(1_000, drainedMsMax), () => {
      this.#isDraining = false;
      this.#activate(node);
    });
  }

  #activateAll(): void {
    for (const node of this.#spec.workers) this.#activate(node);
  }

  /** Again and again: it may be drained for other reasons, and it may be down. */
  #activate(node: string): void {
    const id = this.#idOf(node);
    if (id === undefined) return this.#later(againMs, () => this.#activate(node));
    this.#through(
      (core, done) => {
        if (core.control !== undefined)
          activateNode({ registry: core.control.registry, clock: core.clock }, { node: id }, done);
      },
      (ok) => {
        if (!ok && this.#isOver) this.#later(againMs, () => this.#activate(node));
      },
    );
  }

  #through(run: (core: NodeCore, done: Done<unknown>) => void, ended: Ended = () => undefined): void {
    this.#on(this.#spec.random.pick(this.#spec.world.names), run, ended);
  }

  /** Ends also when that node never answers: it may be killed meanwhile. */
  #on(name: string, run: (core: NodeCore, done: Done<unknown>) => void, ended: Ended): void {
    let isOpen = true;
    const end: Ended = (ok, code) => {
      if (isOpen) ended(ok, code);
      isOpen = false;
    };
    this.#later(answerMsMax, () => end(false));
    this.#spec.world.host(name).life?.enter(() => {
      const core = this.#core(name);
      if (core !== undefined) run(core, (outcome) => end(outcome.ok, outcome.ok ? undefined : outcome.error.code));
    });
  }

  #idOf(name: string): NodeId | undefined {
    const id = this.#core(name)?.identity.id;
    if (id !== undefined) this.#ids.set(name, id);
    return this.#ids.get(name);
  }

  #core(name: string): NodeCore | undefined {
    return this.#spec.world.program(name)?.core;
  }

  #later(delayMs: number, run: () => void): void {
    this.#spec.world.timeline.after(delayMs, run);
  }
}

function operationsOf({ control, clock }: NodeCore): PoolOperations | undefined {
  return control && new PoolOperations(control.registry, clock);
}
