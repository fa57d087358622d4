/**
 * Closed load model: a user starts its next iteration when the last one has ended. Ends after its duration or its
 * number of iterations.
 */
import type { LoadFacts } from '../../jobs/workflow-facts.ts';
import type { CheckedLoad } from '../definition/checked-workflow.ts';
import { type StepPlan, VirtualUser, stepPlanOf } from './virtual-user.ts';
import type { RunScope } from './run-scope.ts';
import { type UnitPosition, unitShareOfUsers, targetUsersAt } from './load-stages.ts';
import { LoadDeadline } from './load-deadline.ts';

/** How often the number of users is adjusted to the stages. */
const adjustIntervalMs = 100;

export type LoadShare = UnitPosition & {
  readonly firstUser: number;
  readonly users: number;
  readonly iterations: number | undefined;
};

export class ClosedModelLoad {
  readonly #run: RunScope;
  readonly #load: LoadFacts;
  readonly #share: LoadShare;
  readonly #plan: StepPlan;
  readonly #users: (VirtualUser | undefined)[] = [];
  readonly #running = new Set<number>();
  readonly #startMs: number;
  readonly deadline: LoadDeadline;
  /** Users with a lower index start further iterations. */
  #active = 0;
  #iterationsLeft: number;

  constructor(run: RunScope, checked: CheckedLoad, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#load = load;
    this.#share = share;
    this.#plan = stepPlanOf(run, checked);
    this.#startMs = run.clock.nowMs();
    this.#iterationsLeft = share.iterations ?? Infinity;
    this.deadline = new LoadDeadline(run, this.#startMs, load.durationMs);
  }

  async run(): Promise<void> {
    this.deadline.addRunning();
    try {
      if (this.#load.stages === undefined) await this.#setActive(this.#share.users);
      else await this.#followStages(this.#load.stages);
    } finally {
      this.deadline.removeRunning();
    }
    await this.deadline.finished;
  }

  async #followStages(stages: NonNullable<LoadFacts['stages']>): Promise<void> {
    const { clock, sleeps } = this.#run;
    while (!this.deadline.isPast && this.#iterationsLeft > 0) {
      const nowMs = clock.nowMs();
      await this.#setActive(this.#activeAt(stages, nowMs - this.#startMs));
      await sleeps.wait(Math.min(adjustIntervalMs, Math.max(0, this.deadline.endMs - nowMs)));
    }
  }

  #activeAt(stages: NonNullable<LoadFacts['stages']>, elapsedMs: number): number {
    return unitShareOfUsers(targetUsersAt(stages, elapsedMs), this.#load.vus, this.#share.users, this.#share);
  }

  async #setActive(active: number): Promise<void> {
    const { clock, yielder } = this.#run;
    this.#active = Math.min(active, this.#share.users);
    for (let i = 0; i < this.#active && !this.deadline.isPast; i++) {
      if (this.#running.has(i)) continue;
      this.#running.add(i);
      this.deadline.addRunning();
      void this.#runUser(i);
      if (clock.nowMs() >= yielder.yieldDueMs) await yielder.yieldToLoop();
    }
  }

  async #runUser(index: number): Promise<void> {
    const { clock, yielder, sleeps } = this.#run;
    const user = (this.#users[index] ??= new VirtualUser(this.#plan, this.#share.firstUser + index));
    let nowMs = clock.nowMs();
    while (index < this.#active && this.#iterationsLeft > 0 && !this.deadline.isPastAt(nowMs)) {
      this.#iterationsLeft -= 1;
      await user.iterate(undefined);
      nowMs = user.endedMs;
      const thinkMs = user.thinkMs();
      if (thinkMs > 0) {
        await sleeps.wait(Math.min(thinkMs, Math.max(0, this.deadline.endMs - nowMs)));
        nowMs = clock.nowMs();
      }
      if (nowMs >= yielder.yieldDueMs) {
        await yielder.yieldToLoop();
        nowMs = clock.nowMs();
      }
    }
    this.#running.delete(index);
    this.deadline.removeRunning();
  }
}
