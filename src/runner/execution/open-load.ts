/**
 * Open load model: iterations start at scheduled arrivals, whatever responses take. Drops and counts arrivals without a
 * free user; measures from the due time.
 */
import type { LoadFacts } from '../../jobs/workflow-facts.ts';
import type { CheckedLoad } from '../definition/checked-workflow.ts';
import { type StepPlan, VirtualUser, stepPlanOf } from './virtual-user.ts';
import type { RunScope } from './run-scope.ts';
import { ArrivalSchedule } from './load-stages.ts';
import type { LoadShare } from './closed-load.ts';
import { LoadDeadline } from './load-deadline.ts';

/** Who begins later than this is no generator of that rate any more. */
const lateMsMax = 250;

export class OpenModelLoad {
  readonly #run: RunScope;
  readonly #share: LoadShare;
  readonly #plan: StepPlan;
  readonly #times: ArrivalSchedule;
  readonly #free: VirtualUser[] = [];
  readonly #startMs: number;
  readonly end: LoadDeadline;
  #users = 0;
  #left: number;

  constructor(run: RunScope, defined: CheckedLoad, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#share = share;
    this.#plan = stepPlanOf(run, defined);
    this.#times = new ArrivalSchedule(load, share);
    this.#startMs = run.clock.nowMs();
    this.#left = share.iterations ?? Infinity;
    this.end = new LoadDeadline(run, this.#startMs, load.durationMs);
  }

  async run(): Promise<void> {
    this.end.started();
    try {
      await this.#runArrivals();
    } finally {
      this.end.finished();
    }
    await this.end.over;
  }

  async #runArrivals(): Promise<void> {
    const { clock, pacer, sleepers, summary } = this.#run;
    for (let dueMs = this.#nextMs(); dueMs < this.end.endMs && this.#left > 0; dueMs = this.#nextMs()) {
      const waitMs = dueMs - clock.nowMs();
      if (waitMs > 0) await sleepers.wait(waitMs);
      else if (clock.nowMs() >= pacer.yieldDueMs) await pacer.yieldToLoop();
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
    this.end.started();
    void this.#once(user, dueMs);
  }

  #newUser(): VirtualUser | undefined {
    if (this.#users >= this.#share.users) return undefined;
    this.#users += 1;
    return new VirtualUser(this.#plan, this.#share.firstUser + this.#users - 1);
  }

  async #once(user: VirtualUser, dueMs: number): Promise<void> {
    await user.iterate(dueMs);
    this.#free.push(user);
    this.end.finished();
  }
}
