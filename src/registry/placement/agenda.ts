/**
 * What has to be looked at, and when: the containers and pools that something has changed about, those that wait for a
 * time, for nodes or for their turn to make a copy. It makes sure that the leader of very many containers never looks
 * at all of them because of one. It decides nothing; its bound is the number of containers and pools.
 */
import { DueTimes } from './due-times.ts';
import { OnceQueue } from './once-queue.ts';
import type { Plan } from './situation.ts';

export class Agenda {
  readonly #containers = new OnceQueue();
  readonly #pools = new OnceQueue();
  /** Until the nodes change. */
  readonly #stuckContainers = new Set<string>();
  readonly #stuckPools = new Set<string>();
  /** Until another copy has been made. */
  readonly #repairs = new OnceQueue();
  readonly #due = new DueTimes();
  readonly #duePools = new DueTimes();

  lookAt(container: string): void {
    this.#containers.add(container);
  }

  lookAtPool(pool: string): void {
    this.#pools.add(pool);
  }

  /** Some node can do more than before, or less. */
  nodesChanged(): void {
    for (const container of this.#stuckContainers) this.#containers.add(container);
    for (const pool of this.#stuckPools) this.#pools.add(pool);
    this.#stuckContainers.clear();
    this.#stuckPools.clear();
  }

  lookAtAgain(container: string, atMs: number): void {
    this.#due.set(container, atMs);
  }

  lookAtPoolAgain(pool: string, atMs: number): void {
    this.#duePools.set(pool, atMs);
  }

  /** What came of looking at it, if nothing was begun. */
  looked(container: string, { dueMs, stuck }: Plan): void {
    if (dueMs !== undefined) this.#due.set(container, dueMs);
    if (stuck === true) this.#stuckContainers.add(container);
  }

  waitForRepair(container: string): void {
    this.#repairs.add(container);
  }

  poolWaits(pool: string): void {
    this.#stuckPools.add(pool);
  }

  /** Whoever takes it looks at it, or says when it is to be looked at again. */
  takeContainer(nowMs: number): string | undefined {
    for (let name = this.#due.take(nowMs); name !== undefined; name = this.#due.take(nowMs)) this.#containers.add(name);
    const container = this.#containers.take();
    if (container === undefined) return undefined;
    this.#stuckContainers.delete(container);
    this.#repairs.delete(container);
    this.#due.delete(container);
    return container;
  }

  takePool(nowMs: number): string | undefined {
    for (let name = this.#duePools.take(nowMs); name !== undefined; name = this.#duePools.take(nowMs))
      this.#pools.add(name);
    const pool = this.#pools.take();
    if (pool !== undefined) this.#stuckPools.delete(pool);
    return pool;
  }

  get repairsWaiting(): number {
    return this.#repairs.size;
  }

  /** So many of those that wait for their turn are looked at again. */
  lookAtRepairs(count: number): void {
    for (let index = 0; index < count; index++) {
      const container = this.#repairs.take();
      if (container === undefined) return;
      this.#containers.add(container);
    }
  }

  /** When the next container and the next pool that wait for a time are to be looked at. */
  nextTimesMs(): readonly (number | undefined)[] {
    return [this.#due.nextMs(), this.#duePools.nextMs()];
  }

  clear(): void {
    for (const queue of [this.#containers, this.#pools, this.#repairs, this.#due, this.#duePools]) queue.clear();
    for (const set of [this.#stuckContainers, this.#stuckPools]) set.clear();
  }
}
