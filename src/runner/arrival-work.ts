/**
 * The open model: iterations begin when they are due, however long the answers take. An arrival for which no user is
 * free is dropped and counted; one that begins late says so, and its duration is counted from when it was due.
 */
import type { LoadFacts } from '../jobs/workflow-facts.ts';
import type { LoadDefined } from './definition.ts';
import { type StepPlan, User, planOf } from './iteration.ts';
import type { Run } from './run.ts';
import { ArrivalTimes } from './stages.ts';
import type { LoadShare } from './user-work.ts';
import { WorkEnd } from './work-end.ts';

/** Who begins later than this is no generator of that rate any more. */
const lateMsMax = 250;

export class ArrivalWork {
  readonly #run: Run;
  readonly #share: LoadShare;
  readonly #plan: StepPlan;
  readonly #times: ArrivalTimes;
  readonly #free: User[] = [];
  readonly #startMs: number;
  readonly end: WorkEnd;
  #users = 0;
  #left: number;

  constructor(run: Run, defined: LoadDefined, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#share = share;
    this.#plan = planOf(run, defined);
    this.#times = new ArrivalTimes(load, share);
    this.#startMs = run.clock.nowMs();
    this.#left = share.iterations ?? Infinity;
    this.end = new WorkEnd(run, this.#startMs, load.durationMs);
  }

  async work(): Promise<void> {
    this.end.begin();
    try {
      await this.#arrive();
    } finally {
      this.end.end();
    }
    await this.end.over;
  }

  async #arrive(): Promise<void> {
    const { clock, pacer, sleepers, summary } = this.#run;
    for (let dueMs = this.#nextMs(); dueMs < this.end.endMs && this.#left > 0; dueMs = this.#nextMs()) {
      const waitMs = dueMs - clock.nowMs();
      if (waitMs > 0) await sleepers.pause(waitMs);
      else if (clock.nowMs() >= pacer.dueMs) await pacer.turn();
      if (this.#run.isStopped) return;
      const lateMs = clock.nowMs() - dueMs;
      summary.lagMaxUs = Math.max(summary.lagMaxUs, lateMs * 1_000);
      if (lateMs > lateMsMax) summary.saturated = true;
      this.#left -= 1;
      this.#begin(dueMs);
    }
  }

  #nextMs(): number {
    return this.#startMs + this.#times.nextMs();
  }

  #begin(dueMs: number): void {
    const user = this.#free.pop() ?? this.#newUser();
    if (user === undefined) {
      this.#run.summary.dropped += 1;
      this.#run.summary.saturated = true;
      return;
    }
    this.end.begin();
    void this.#once(user, dueMs);
  }

  #newUser(): User | undefined {
    if (this.#users >= this.#share.users) return undefined;
    this.#users += 1;
    return new User(this.#plan, this.#share.firstUser + this.#users - 1);
  }

  async #once(user: User, dueMs: number): Promise<void> {
    await user.iterate(dueMs);
    this.#free.push(user);
    this.end.end();
  }
}
