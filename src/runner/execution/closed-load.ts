/**
 * Closed load model: each user starts its next iteration when the last has ended. Ends at its duration or iteration
 * count.
 */
import type { LoadFacts } from '../../jobs/workflow-facts.ts';
import type { CheckedLoad } from '../definition/checked-workflow.ts';
import { type StepPlan, VirtualUser, stepPlanOf } from './virtual-user.ts';
import type { RunScope } from './run-scope.ts';
import { type UnitPosition, unitShareOfUsers, targetUsersAt } from './load-stages.ts';
import { LoadDeadline } from './load-deadline.ts';

/** How often the number of users follows the stages. */
const followMs = 100;

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
  readonly #atWork = new Set<number>();
  readonly #startMs: number;
  readonly end: LoadDeadline;
  /** Users below this number may go on. */
  #active = 0;
  #left: number;

  constructor(run: RunScope, defined: CheckedLoad, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#load = load;
    this.#share = share;
    this.#plan = stepPlanOf(run, defined);
    this.#startMs = run.clock.nowMs();
    this.#left = share.iterations ?? Infinity;
    this.end = new LoadDeadline(run, this.#startMs, load.durationMs);
  }

  async run(): Promise<void> {
    this.end.started();
    try {
      if (this.#load.stages === undefined) await this.#grow(this.#share.users);
      else await this.#followStages(this.#load.stages);
    } finally {
      this.end.finished();
    }
    await this.end.over;
  }

  async #followStages(stages: NonNullable<LoadFacts['stages']>): Promise<void> {
    const { clock, sleepers } = this.#run;
    while (!this.end.isOver && this.#left > 0) {
      const nowMs = clock.nowMs();
      await this.#grow(this.#activeAt(stages, nowMs - this.#startMs));
      await sleepers.wait(Math.min(followMs, Math.max(0, this.end.endMs - nowMs)));
    }
  }

  #activeAt(stages: NonNullable<LoadFacts['stages']>, elapsedMs: number): number {
    return unitShareOfUsers(targetUsersAt(stages, elapsedMs), this.#load.vus, this.#share.users, this.#share);
  }

  async #grow(active: number): Promise<void> {
    const { clock, pacer } = this.#run;
    this.#active = Math.min(active, this.#share.users);
    for (let i = 0; i < this.#active && !this.end.isOver; i++) {
      if (this.#atWork.has(i)) continue;
      this.#atWork.add(i);
      this.end.started();
      void this.#runUser(i);
      if (clock.nowMs() >= pacer.yieldDueMs) await pacer.yieldToLoop();
    }
  }

  async #runUser(place: number): Promise<void> {
    const { clock, pacer, sleepers } = this.#run;
    const user = (this.#users[place] ??= new VirtualUser(this.#plan, this.#share.firstUser + place));
    let nowMs = clock.nowMs();
    while (place < this.#active && this.#left > 0 && !this.end.isOverAt(nowMs)) {
      this.#left -= 1;
      await user.iterate(undefined);
      nowMs = user.endedMs;
      const thinkMs = user.thinkMs();
      if (thinkMs > 0) {
        await sleepers.wait(Math.min(thinkMs, Math.max(0, this.end.endMs - nowMs)));
        nowMs = clock.nowMs();
      }
      if (nowMs >= pacer.yieldDueMs) {
        await pacer.yieldToLoop();
        nowMs = clock.nowMs();
      }
    }
    this.#atWork.delete(place);
    this.end.finished();
  }
}
