/**
 * Open load model: iterations start at scheduled arrivals, whatever responses take. An arrival without a free user is
 * dropped and counted; iterations are measured from their due time.
 */
import type { LoadFacts } from '../../jobs/workflow-facts.ts';
import type { CheckedLoad } from '../definition/checked-workflow.ts';
import { type StepPlan, VirtualUser, stepPlanOf } from './virtual-user.ts';
import type { RunScope } from './run-scope.ts';
import { ArrivalSchedule } from './load-stages.ts';
import type { LoadShare } from './closed-load.ts';
import { LoadDeadline } from './load-deadline.ts';

/** With later starts the runner cannot generate the rate. */
const lateMsMax = 250;

export class OpenModelLoad {
  readonly #run: RunScope;
  readonly #share: LoadShare;
  readonly #plan: StepPlan;
  readonly #arrivals: ArrivalSchedule;
  readonly #free: VirtualUser[] = [];
  readonly #startMs: number;
  readonly deadline: LoadDeadline;
  #users = 0;
  #iterationsLeft: number;

  constructor(run: RunScope, checked: CheckedLoad, load: LoadFacts, share: LoadShare) {
    this.#run = run;
    this.#share = share;
    this.#plan = stepPlanOf(run, checked);
    this.#arrivals = new ArrivalSchedule(load, share);
    this.#startMs = run.clock.nowMs();
    this.#iterationsLeft = share.iterations ?? Infinity;
    this.deadline = new LoadDeadline(run, this.#startMs, load.durationMs);
  }

  async run(): Promise<void> {
    this.deadline.addRunning();
    try {
      await this.#runArrivals();
    } finally {
      this.deadline.removeRunning();
    }
    await this.deadline.finished;
  }

  async #runArrivals(): Promise<void> {
    const { clock, yielder, sleeps, summary } = this.#run;
    for (let dueMs = this.#nextMs(); dueMs < this.deadline.endMs && this.#iterationsLeft > 0; dueMs = this.#nextMs()) {
      const waitMs = dueMs - clock.nowMs();
      if (waitMs > 0) await sleeps.wait(waitMs);
      else if (clock.nowMs() >= yielder.yieldDueMs) await yielder.yieldToLoop();
      if (this.#run.isStopped) return;
      const lateMs = clock.nowMs() - dueMs;
      summary.lagMaxUs = Math.max(summary.lagMaxUs, lateMs * 1_000);
      if (lateMs > lateMsMax) summary.saturated = true;
      this.#iterationsLeft -= 1;
      this.#startIteration(dueMs);
    }
  }

  #nextMs(): number {
    return this.#startMs + this.#arrivals.nextMs();
  }

  #startIteration(dueMs: number): void {
    const user = this.#free.pop() ?? this.#newUser();
    if (user === undefined) {
      this.#run.summary.dropped += 1;
      this.#run.summary.saturated = true;
      return;
    }
    this.deadline.addRunning();
    void this.#iterate(user, dueMs);
  }

  #newUser(): VirtualUser | undefined {
    if (this.#users >= this.#share.users) return undefined;
    this.#users += 1;
    return new VirtualUser(this.#plan, this.#share.firstUser + this.#users - 1);
  }

  async #iterate(user: VirtualUser, dueMs: number): Promise<void> {
    await user.iterate(dueMs);
    this.#free.push(user);
    this.deadline.removeRunning();
  }
}
