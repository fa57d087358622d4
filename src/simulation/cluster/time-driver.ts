/**
 * Advances virtual time while code awaits. Promises settle between two events, so code with promises runs in the same
 * order each time. Several waiters share one timeline; an error of a simulated program rejects all of them.
 */
import { RemusterError } from '../../base/errors.ts';
import type { SimulatedWorld } from '../world/simulated-world.ts';

export type SettlePromises = () => Promise<void>;

type Waiter = { readonly untilMs: number; readonly end: (error: unknown) => void };

export class TimeDriver {
  readonly #world: SimulatedWorld<unknown>;
  readonly #settle: SettlePromises;
  readonly #waiters = new Set<Waiter>();
  #isDriving = false;
  #error: unknown;

  /** `settle` resolves when no promise is left to settle. */
  constructor(world: SimulatedWorld<unknown>, settle: SettlePromises) {
    this.#world = world;
    this.#settle = settle;
    world.watch((event) => {
      if (event.kind === 'threw') this.#error ??= event.error;
    });
  }

  advance(durationMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (error: unknown): void => (error === undefined ? resolve() : reject(asError(error)));
      this.#wait({ untilMs: this.#world.timeline.nowMs + durationMs, end });
    });
  }

  /** Advances time until the promise settles, which it must do by a timer of the world at the latest. */
  runDuring<T>(run: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const waiter: Waiter = { untilMs: Infinity, end: (error) => reject(asError(error)) };
      run()
        .finally(() => this.#waiters.delete(waiter))
        .then(resolve, reject);
      this.#wait(waiter);
    });
  }

  #wait(waiter: Waiter): void {
    this.#waiters.add(waiter);
    if (this.#isDriving) return;
    this.#isDriving = true;
    void this.#drive();
  }

  async #drive(): Promise<void> {
    await this.#settle();
    while (this.#waiters.size > 0) {
      this.#step();
      if (this.#error !== undefined) for (const { end } of this.#take(() => true)) end(this.#error);
      await this.#settle();
    }
    this.#isDriving = false;
  }

  #step(): void {
    const { timeline } = this.#world;
    const untilMs = Math.min(...[...this.#waiters].map((waiter) => waiter.untilMs));
    const nextMs = timeline.nextMs() ?? Infinity;
    if (nextMs <= untilMs && nextMs < Infinity) timeline.step();
    else if (untilMs === Infinity)
      this.#error ??= new RemusterError('INTERNAL', 'a promise is pending and no event is left to settle it');
    else {
      timeline.runUntil(untilMs);
      for (const { end } of this.#take((waiter) => waiter.untilMs <= untilMs)) end(undefined);
    }
  }

  #take(isDue: (waiter: Waiter) => boolean): readonly Waiter[] {
    const taken = [...this.#waiters].filter(isDue);
    for (const waiter of taken) this.#waiters.delete(waiter);
    return taken;
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new RemusterError('INTERNAL', String(error));
}
