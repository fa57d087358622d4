/**
 * Which containers and pools the leader has to look at, now or later (as a Kubernetes work queue). One change never
 * costs a scan of all containers.
 */
import { DeadlineHeap } from '../../base/deadline-heap.ts';
import type { ContainerPlan } from '../plans/planning-context.ts';

export class ReconcileQueue {
  readonly #containers = new UniqueQueue();
  readonly #pools = new UniqueQueue();
  /** Until the nodes change. */
  readonly #stuckContainers = new Set<string>();
  readonly #stuckPools = new Set<string>();
  /** Until another copy has been made. */
  readonly #repairs = new UniqueQueue();
  readonly #due = new DeadlineHeap();
  readonly #duePools = new DeadlineHeap();

  enqueue(container: string): void {
    this.#containers.add(container);
  }

  enqueuePool(pool: string): void {
    this.#pools.add(pool);
  }

  /** Some node can do more than before, or less. */
  nodesChanged(): void {
    for (const container of this.#stuckContainers) this.#containers.add(container);
    for (const pool of this.#stuckPools) this.#pools.add(pool);
    this.#stuckContainers.clear();
    this.#stuckPools.clear();
  }

  enqueueAt(container: string, atMs: number): void {
    this.#due.set(container, atMs);
  }

  enqueuePoolAt(pool: string, atMs: number): void {
    this.#duePools.set(pool, atMs);
  }

  /** What came of looking at it, if nothing was begun. */
  planned(container: string, { dueMs, stuck }: ContainerPlan): void {
    if (dueMs !== undefined) this.#due.set(container, dueMs);
    if (stuck === true) this.#stuckContainers.add(container);
  }

  blockOnRepair(container: string): void {
    this.#repairs.add(container);
  }

  blockPool(pool: string): void {
    this.#stuckPools.add(pool);
  }

  /** Whoever takes it looks at it, or says when it is to be looked at again. */
  nextContainer(nowMs: number): string | undefined {
    for (let name = this.#due.popDue(nowMs); name !== undefined; name = this.#due.popDue(nowMs))
      this.#containers.add(name);
    const container = this.#containers.take();
    if (container === undefined) return undefined;
    this.#stuckContainers.delete(container);
    this.#repairs.delete(container);
    this.#due.delete(container);
    return container;
  }

  nextPool(nowMs: number): string | undefined {
    for (let name = this.#duePools.popDue(nowMs); name !== undefined; name = this.#duePools.popDue(nowMs))
      this.#pools.add(name);
    const pool = this.#pools.take();
    if (pool !== undefined) this.#stuckPools.delete(pool);
    return pool;
  }

  get repairsWaiting(): number {
    return this.#repairs.size;
  }

  /** So many of those that wait for their turn are looked at again. */
  enqueueRepairs(count: number): void {
    for (let index = 0; index < count; index++) {
      const container = this.#repairs.take();
      if (container === undefined) return;
      this.#containers.add(container);
    }
  }

  /** When the next container and the next pool that wait for a time are to be looked at. */
  nextDueMs(): readonly (number | undefined)[] {
    return [this.#due.nextDueMs(), this.#duePools.nextDueMs()];
  }

  clear(): void {
    for (const queue of [this.#containers, this.#pools, this.#repairs, this.#due, this.#duePools]) queue.clear();
    for (const set of [this.#stuckContainers, this.#stuckPools]) set.clear();
  }
}

const compactMin = 1_024;

/**
 * First in, first out, each name at most once. A set alone would do, if taking its first member did not cost more the
 * more were taken before. Its bound is the number of names there are.
 */
export class UniqueQueue {
  readonly #members = new Set<string>();
  #order: string[] = [];
  #head = 0;

  get size(): number {
    return this.#members.size;
  }

  add(name: string): void {
    if (this.#members.has(name)) return;
    this.#members.add(name);
    this.#order.push(name);
    if (this.#order.length > 2 * this.#members.size + compactMin) this.#compact();
  }

  take(): string | undefined {
    while (this.#head < this.#order.length) {
      const name = this.#order[this.#head++] as string;
      if (!this.#members.delete(name)) continue;
      if (this.#head >= compactMin && this.#head * 2 >= this.#order.length) this.#compact();
      return name;
    }
    this.#order = [];
    this.#head = 0;
    return undefined;
  }

  delete(name: string): void {
    this.#members.delete(name);
  }

  clear(): void {
    this.#members.clear();
    this.#order = [];
    this.#head = 0;
  }

  /** The set keeps the order in which its members were added. */
  #compact(): void {
    this.#order = [...this.#members];
    this.#head = 0;
  }
}
