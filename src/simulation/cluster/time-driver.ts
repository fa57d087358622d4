/**
 * Advances virtual time while code awaits; lets promises settle between two events, so that code with promises runs in
 * the same order each time. Several waiters share one timeline.
 */
import { RemusterError } from '../../base/errors.ts';
import type { SimulatedWorld } from '../world/simulated-world.ts';

export type SettlePromises = () => Promise<void>;

type Waiter = { readonly untilMs: number; readonly ended: (mistake: unknown) => void };

export class TimeDriver {
  readonly #world: SimulatedWorld<unknown>;
  readonly #settle: SettlePromises;
  readonly #goals = new Set<Waiter>();
  #isDriving = false;
  #mistake: unknown;

  /** `settle` ends when no promise has anything to do any more. */
  constructor(world: SimulatedWorld<unknown>, settle: SettlePromises) {
    this.#world = world;
    this.#settle = settle;
    world.watch((event) => {
      if (event.kind === 'threw') this.#mistake ??= event.error;
    });
  }

  advance(durationMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const ended = (mistake: unknown): void => (mistake === undefined ? resolve() : reject(asError(mistake)));
      this.#aim({ untilMs: this.#world.timeline.nowMs + durationMs, ended });
    });
  }

  /** Time passes until it has ended. What it starts must end by a timer of the world, at the latest. */
  runDuring<T>(run: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const goal: Waiter = { untilMs: Infinity, ended: (mistake) => reject(asError(mistake)) };
      run()
        .finally(() => this.#goals.delete(goal))
        .then(resolve, reject);
      this.#aim(goal);
    });
  }

  #aim(goal: Waiter): void {
    this.#goals.add(goal);
    if (this.#isDriving) return;
    this.#isDriving = true;
    void this.#drive();
  }

  async #drive(): Promise<void> {
    await this.#settle();
    while (this.#goals.size > 0) {
      this.#next();
      if (this.#mistake !== undefined) for (const { ended } of this.#take(() => true)) ended(this.#mistake);
      await this.#settle();
    }
    this.#isDriving = false;
  }

  #next(): void {
    const { timeline } = this.#world;
    const untilMs = Math.min(...[...this.#goals].map((goal) => goal.untilMs));
    const nextMs = timeline.nextMs() ?? Infinity;
    if (nextMs <= untilMs && nextMs < Infinity) timeline.step();
    else if (untilMs === Infinity) this.#mistake ??= new RemusterError('INTERNAL', 'nothing will ever happen');
    else {
      timeline.runUntil(untilMs);
      for (const { ended } of this.#take((goal) => goal.untilMs <= untilMs)) ended(undefined);
    }
  }

  #take(which: (goal: Waiter) => boolean): readonly Waiter[] {
    const taken = [...this.#goals].filter(which);
    for (const goal of taken) this.#goals.delete(goal);
    return taken;
  }
}

function asError(mistake: unknown): Error {
  return mistake instanceof Error ? mistake : new RemusterError('INTERNAL', String(mistake));
}
