/**
 * The containers and pools that the placer has to reconcile, now or at a time (the work queue of a Kubernetes
 * controller). Holds each name at most once; a change never costs a scan of all containers.
 */
import { DeadlineHeap } from '../../base/deadline-heap.ts';
import type { ContainerPlan } from '../plans/planning-context.ts';

export class ReconcileQueue {
  readonly #containers = new UniqueQueue();
  readonly #pools = new UniqueQueue();
  /** Blocked until a node changes. */
  readonly #blockedContainers = new Set<string>();
  readonly #blockedPools = new Set<string>();
  /** Containers that need a repair while `copyRepairsMax` repairs are under way. */
  readonly #repairs = new UniqueQueue();
  readonly #due = new DeadlineHeap();
  readonly #duePools = new DeadlineHeap();

  enqueue(container: string): void {
    this.#containers.add(container);
  }

  enqueuePool(pool: string): void {
    this.#pools.add(pool);
  }

  /** Enqueues all blocked containers and pools, because a node has changed. */
  unblockAll(): void {
    for (const container of this.#blockedContainers) this.#containers.add(container);
    for (const pool of this.#blockedPools) this.#pools.add(pool);
    this.#blockedContainers.clear();
    this.#blockedPools.clear();
  }

  enqueueAt(container: string, atMs: number): void {
    this.#due.set(container, atMs);
  }

  enqueuePoolAt(pool: string, atMs: number): void {
    this.#duePools.set(pool, atMs);
  }

  /** Defers the container as its plan says, which has no update to start. */
  defer(container: string, { dueMs, isBlocked }: ContainerPlan): void {
    if (dueMs !== undefined) this.#due.set(container, dueMs);
    if (isBlocked === true) this.#blockedContainers.add(container);
  }

  blockOnRepair(container: string): void {
    this.#repairs.add(container);
  }

  blockPool(pool: string): void {
    this.#blockedPools.add(pool);
  }

  /** Takes the next container out of the queue; the caller plans it, or enqueues it again. */
  nextContainer(nowMs: number): string | undefined {
    for (let name = this.#due.popDue(nowMs); name !== undefined; name = this.#due.popDue(nowMs))
      this.#containers.add(name);
    const container = this.#containers.take();
    if (container === undefined) return undefined;
    this.#blockedContainers.delete(container);
    this.#repairs.delete(container);
    this.#due.delete(container);
    return container;
  }

  nextPool(nowMs: number): string | undefined {
    for (let name = this.#duePools.popDue(nowMs); name !== undefined; name = this.#duePools.popDue(nowMs))
      this.#pools.add(name);
    const pool = this.#pools.take();
    if (pool !== undefined) this.#blockedPools.delete(pool);
    return pool;
  }

  get repairsWaiting(): number {
    return this.#repairs.size;
  }

  /** Enqueues the first `count` containers that wait for a repair. */
  enqueueRepairs(count: number): void {
    for (let index = 0; index < count; index++) {
      const container = this.#repairs.take();
      if (container === undefined) return;
      this.#containers.add(container);
    }
  }

  /** When the next container and the next pool are due. */
  nextDueMs(): readonly (number | undefined)[] {
    return [this.#due.nextDueMs(), this.#duePools.nextDueMs()];
  }

  clear(): void {
    for (const queue of [this.#containers, this.#pools, this.#repairs, this.#due, this.#duePools]) queue.clear();
    for (const set of [this.#blockedContainers, this.#blockedPools]) set.clear();
  }
}

const compactMin = 1_024;

/**
 * A FIFO queue that holds each name at most once. A Set alone would do, but taking its first member gets slower with
 * every member taken before. The number of names bounds it.
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

  /** A Set iterates in insertion order. */
  #compact(): void {
    this.#order = [...this.#members];
    this.#head = 0;
  }
}
