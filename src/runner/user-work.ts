/**
 * The closed model: a number of users, each beginning its next iteration when the last one has ended. Their number may
 * follow stages. It ends with its time, or with the last of its iterations.
 */
import type { LoadFacts } from '../jobs/workflow-facts.ts';
import type { LoadDefined } from './definition.ts';
import { type StepPlan, User, planOf } from './iteration.ts';
import type { Run } from './run.ts';
import { type Part, ownShare, targetAt } from './stages.ts';
import { WorkEnd } from './work-end.ts';

/** How often the number of users follows the stages. */
const followMs = 100;

export type LoadShare = Part & {
  readonly firstUser: number;
  readonly users: number;
  readonly iterations: number | undefined;
};

export class UserWork {
  readonly #run: Run;
  readonly #load: LoadFacts;
  readonly #share: LoadShare;
  readonly #plan: StepPlan;
  readonly #users: (User | undefined)[] = [];
  readonly #atWork = new Set<number>();
  readonly #startMs: number;
  readonly end: WorkEnd;
  /** Users below this number may go on. */
  #active = 0;
  #left: number;

  constructor(run: Run, defined: LoadDefined, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#load = load;
    this.#share = share;
    this.#plan = planOf(run, defined);
    this.#startMs = run.clock.nowMs();
    this.#left = share.iterations ?? Infinity;
    this.end = new WorkEnd(run, this.#startMs, load.durationMs);
  }

  async work(): Promise<void> {
    this.end.begin();
    try {
      if (this.#load.stages === undefined) await this.#grow(this.#share.users);
      else await this.#follow(this.#load.stages);
    } finally {
      this.end.end();
    }
    await this.end.over;
  }

  async #follow(stages: NonNullable<LoadFacts['stages']>): Promise<void> {
    const { clock, sleepers } = this.#run;
    while (!this.end.isOver && this.#left > 0) {
      const nowMs = clock.nowMs();
      await this.#grow(this.#activeAt(stages, nowMs - this.#startMs));
      await sleepers.pause(Math.min(followMs, Math.max(0, this.end.endMs - nowMs)));
    }
  }

  #activeAt(stages: NonNullable<LoadFacts['stages']>, elapsedMs: number): number {
    return ownShare(targetAt(stages, elapsedMs), this.#load.vus, this.#share.users, this.#share);
  }

  async #grow(active: number): Promise<void> {
    const { clock, pacer } = this.#run;
    this.#active = Math.min(active, this.#share.users);
    for (let i = 0; i < this.#active && !this.end.isOver; i++) {
      if (this.#atWork.has(i)) continue;
      this.#atWork.add(i);
      this.end.begin();
      void this.#goThrough(i);
      if (clock.nowMs() >= pacer.dueMs) await pacer.turn();
    }
  }

  async #goThrough(place: number): Promise<void> {
    const { clock, pacer, sleepers } = this.#run;
    const user = (this.#users[place] ??= new User(this.#plan, this.#share.firstUser + place));
    let nowMs = clock.nowMs();
    while (place < this.#active && this.#left > 0 && !this.end.isOverAt(nowMs)) {
      this.#left -= 1;
      await user.iterate(undefined);
      nowMs = user.endedMs;
      const thinkMs = user.thinkMs();
      if (thinkMs > 0) {
        await sleepers.pause(Math.min(thinkMs, Math.max(0, this.end.endMs - nowMs)));
        nowMs = clock.nowMs();
      }
      if (nowMs >= pacer.dueMs) {
        await pacer.turn();
        nowMs = clock.nowMs();
      }
    }
    this.#atWork.delete(place);
    this.end.end();
  }
}
