/**
 * One lifecycle of a recreated pool, from the reply to its creation until it is deleted and no call of it is in flight:
 *
 *   calling --all calls ended, or early--> deleting --reply--> gone --all calls ended--> done
 *
 * The first calls are sent in the same step as the reply to the creation, and some after the reply to the deletion.
 */
import { PoolOperations } from '../../../../src/placement/operations/pool-operations.ts';
import type { PoolDescription } from '../../../../src/placement/operations/pool-views.ts';
import type { SimulatedWorld } from '../../../../src/simulation/world/simulated-world.ts';
import type { NodeClient } from './node-client.ts';
import { poolNameOfLabel } from './pool-label.ts';
import { LifecycleCalls, type LifecycleCallsOptions } from './lifecycle-calls.ts';

export type PoolLifecycleOptions = LifecycleCallsOptions & {
  /** The node that deletes it if the creator is down; undefined while no node is ready. */
  readonly anyNode: () => NodeClient | undefined;
  readonly world: SimulatedWorld<unknown>;
  /** Between two batches of calls. */
  readonly pauseMsMax: number;
};

const batchesMax = 4;
const batchMax = 3;
const retryMsMax = 300;
/** A read of the registry and a transaction, at most 5 s each. */
const deletionMsMax = 10_000;

export class PoolLifecycle {
  readonly #options: PoolLifecycleOptions;
  readonly #done: () => void;
  readonly #calls: LifecycleCalls;
  #state: 'calling' | 'deleting' | 'gone' = 'calling';
  #batches: number;
  #isKept = false;
  #deletions = 0;

  constructor(options: PoolLifecycleOptions, done: () => void) {
    this.#options = options;
    this.#done = done;
    this.#batches = options.random.below(batchesMax + 1);
    this.#calls = new LifecycleCalls(options, () => this.#onIdle());
  }

  /** The deletion has not started. */
  get isAlive(): boolean {
    return this.#state === 'calling';
  }

  start(): void {
    this.#next();
  }

  /** The pool is not deleted any more, unless the deletion has started. */
  keep(): void {
    this.#isKept = true;
  }

  #onIdle(): void {
    if (this.#state === 'calling') this.#next();
    else if (this.#state === 'gone') this.#done();
  }

  #next(): void {
    const { random, pauseMsMax } = this.#options;
    if (this.#batches === 0) return this.#schedule(pauseMsMax, () => this.#delete());
    this.#batches -= 1;
    // Sometimes the deletion does not wait for the replies of earlier calls.
    if (random.chance(0.1)) this.#schedule(retryMsMax, () => this.#delete());
    for (let left = 1 + random.below(batchMax); left > 0; left--) this.#calls.call();
  }

  #delete(): void {
    if (this.#isKept || this.#state !== 'calling') return;
    const { pool, observe } = this.#options;
    this.#state = 'deleting';
    this.#batches = 0;
    this.#calls.startDeleting();
    observe({ kind: 'poolDeleted', pool: pool.name });
    this.#requestDeletion();
  }

  #requestDeletion(): void {
    const { pool, creator, anyNode, nextRequest, observe } = this.#options;
    const node = creator.isAlive ? creator : anyNode();
    const retry = (): void => this.#schedule(retryMsMax, () => this.#requestDeletion());
    if (node === undefined) return retry();
    const isFirst = ++this.#deletions === 1;
    node.request<PoolDescription>(
      {
        ...{ request: nextRequest(), timeoutMs: deletionMsMax },
        run: ({ control, clock }, done) =>
          control && new PoolOperations(control.registry, clock).delete(poolNameOfLabel(pool.name), done),
      },
      (outcome) => {
        const code = outcome?.ok === false ? outcome.error.code : undefined;
        if (isFirst && code !== undefined) observe({ kind: 'deletionRefused', pool: pool.name, code });
        // UNKNOWN_POOL after a retry: the first attempt took effect, but its reply was lost.
        if (outcome?.ok === true || code === 'UNKNOWN_POOL') this.#onGone();
        else retry();
      },
    );
  }

  #onGone(): void {
    this.#state = 'gone';
    if (this.#options.random.chance(0.3)) this.#calls.call();
    else if (this.#calls.isIdle) this.#done();
  }

  #schedule(delayMsMax: number, run: () => void): void {
    const { world, random } = this.#options;
    world.timeline.after(random.between(0, delayMsMax), run);
  }
}
