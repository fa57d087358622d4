/**
 * One lifecycle of a recreated pool: calling, deleting, gone, over. Ends only when no call of it is in flight.
 *
 * One round of a pool that is made again and again, from the moment in which its client is told of it until it is gone
 * for that client and nothing of the round is under way any more:
 *
 *   calling --all answered, or impatient--> deleting --told--> gone --all answered--> over
 *
 * The first calls go out in the very step in which the creation is answered, and some go out after the deletion was.
 */
import { PoolOperations } from '../../../../src/placement/operations/pool-operations.ts';
import type { PoolDescription } from '../../../../src/placement/operations/pool-views.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import type { NodeClient } from './node-client.ts';
import { poolNameOfLabel } from './pool-label.ts';
import { LifecycleCalls, type LifecycleCallsOptions } from './lifecycle-calls.ts';

export type PoolLifecycleOptions = LifecycleCallsOptions & {
  /** Who is asked to delete it when the creator is gone; undefined while nobody can be asked. */
  readonly anyNode: () => NodeClient | undefined;
  readonly world: SimulatedWorld<unknown>;
  /** Between two wishes. */
  readonly pauseMsMax: number;
};

const batchesMax = 4;
const batchMax = 3;
const againMsMax = 300;
/** A look into the registry and a change of it, each of them 5 s at most. */
const deletionMsMax = 10_000;

export class PoolLifecycle {
  readonly #spec: PoolLifecycleOptions;
  readonly #over: () => void;
  readonly #calls: LifecycleCalls;
  #state: 'calling' | 'deleting' | 'gone' = 'calling';
  #batches: number;
  #isKept = false;
  #deletions = 0;

  constructor(spec: PoolLifecycleOptions, over: () => void) {
    this.#spec = spec;
    this.#over = over;
    this.#batches = spec.random.below(batchesMax + 1);
    this.#calls = new LifecycleCalls(spec, () => this.#idle());
  }

  /** Nobody has begun to delete it. */
  get isAlive(): boolean {
    return this.#state === 'calling';
  }

  begin(): void {
    this.#next();
  }

  /** The pool is to stay, if it is still there. */
  keep(): void {
    this.#isKept = true;
  }

  #idle(): void {
    if (this.#state === 'calling') this.#next();
    else if (this.#state === 'gone') this.#over();
  }

  #next(): void {
    const { random, pauseMsMax } = this.#spec;
    if (this.#batches === 0) return this.#later(pauseMsMax, () => this.#delete());
    this.#batches -= 1;
    // Whoever deletes does not always wait for the answers to what was asked before.
    if (random.chance(0.1)) this.#later(againMsMax, () => this.#delete());
    for (let left = 1 + random.below(batchMax); left > 0; left--) this.#calls.call();
  }

  #delete(): void {
    if (this.#isKept || this.#state !== 'calling') return;
    const { pool, observe } = this.#spec;
    this.#state = 'deleting';
    this.#batches = 0;
    this.#calls.startDeleting();
    observe({ kind: 'poolDeleted', pool: pool.name });
    this.#order();
  }

  #order(): void {
    const { pool, creator, anyNode, nextRequest, observe } = this.#spec;
    const node = creator.isAlive ? creator : anyNode();
    const again = (): void => this.#later(againMsMax, () => this.#order());
    if (node === undefined) return again();
    const isFirst = ++this.#deletions === 1;
    node.request<PoolDescription>(
      {
        ...{ request: nextRequest(), timeoutMs: deletionMsMax },
        ask: ({ control, clock }, done) =>
          control && new PoolOperations(control.registry, clock).delete(poolNameOfLabel(pool.name), done),
      },
      (outcome) => {
        const code = outcome?.ok === false ? outcome.error.code : undefined;
        if (isFirst && code !== undefined) observe({ kind: 'deletionRefused', pool: pool.name, code });
        // Asked again because nobody answered: it had happened.
        if (outcome?.ok === true || code === 'UNKNOWN_POOL') this.#gone();
        else again();
      },
    );
  }

  #gone(): void {
    this.#state = 'gone';
    if (this.#spec.random.chance(0.3)) this.#calls.call();
    else if (this.#calls.isIdle) this.#over();
  }

  #later(delayMsMax: number, run: () => void): void {
    const { world, random } = this.#spec;
    world.timeline.after(random.between(0, delayMsMax), run);
  }
}
