/**
 * One virtual user: runs the steps of an iteration in sequence or by dependencies, and counts each. A failing step is
 * counted, never thrown.
 */
import { Histogram } from '../../base/histogram.ts';
import type { StepCounts } from '../../jobs/report/summary.ts';
import type { CheckedLoad, ThinkTime, StepDefinition } from '../definition/checked-workflow.ts';
import { AuthorContext } from './author-context.ts';
import type { RunScope } from './run-scope.ts';
import { isThenable } from '../../base/thenable.ts';

type PlannedStep = StepDefinition & { readonly place: number; readonly counts: StepCounts };

/** What all users of a run go through. */
export type StepPlan = {
  readonly run: RunScope;
  /** In an order in which each comes after those that it waits for. */
  readonly steps: readonly PlannedStep[];
  readonly isSequence: boolean;
  readonly think: ThinkTime | undefined;
};

export function stepPlanOf(run: RunScope, load: CheckedLoad): StepPlan {
  const steps = load.steps.map((step, place) => ({ ...step, place, counts: run.summary.step(step.name) }));
  return { run, steps: load.isSequence ? steps : sorted(steps), isSequence: load.isSequence, think: load.think };
}

function sorted(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  const out: PlannedStep[] = [];
  const placed = new Set<number>();
  const place = (step: PlannedStep): void => {
    if (placed.has(step.place)) return;
    placed.add(step.place);
    for (const before of step.after ?? []) place(steps[before] as PlannedStep);
    out.push(step);
  };
  for (const step of steps) place(step);
  return out;
}

type Ending = 'ok' | 'failed' | 'threw';

export class VirtualUser {
  readonly #plan: StepPlan;
  readonly #run: RunScope;
  readonly #vu: number;
  /** One, or one for each step where steps run together. */
  readonly #contexts: readonly AuthorContext[];
  #iteration = 0;
  #pausedMs = 0;
  /** When the last of what it did had ended. */
  endedMs = 0;

  constructor(plan: StepPlan, vu: number) {
    this.#plan = plan;
    this.#run = plan.run;
    this.#vu = vu;
    const count = plan.isSequence ? 1 : plan.steps.length;
    this.#contexts = Array.from({ length: count }, () => new AuthorContext(plan.run, ''));
  }

  /** `dueMs`: when it should have begun, in the open model. */
  async iterate(dueMs: number | undefined): Promise<void> {
    const run = this.#run;
    const { clock, summary } = run;
    const startMs = clock.nowMs();
    const results: Record<string, unknown> = {};
    for (const ctx of this.#contexts) ctx.beginIteration(this.#vu, this.#iteration, results);
    this.#iteration += 1;
    this.#pausedMs = 0;
    this.endedMs = startMs;
    let isOk = true;
    if (this.#plan.isSequence) {
      // Written out, with one look at the clock between two steps: here most load tests spend their time.
      const ctx = this.#contexts[0] as AuthorContext;
      for (const step of this.#plan.steps) {
        const stepMs = this.endedMs;
        ctx.beginStep(step.name);
        let ending: Ending;
        try {
          const given = step.run(ctx);
          results[step.name] = isThenable(given) ? await given : given;
          ending = ctx.hasFailed ? 'failed' : 'ok';
        } catch (error) {
          ending = this.#threw(step, error);
        }
        this.#count(step, ending, stepMs);
        if (ending !== 'ok') isOk = false;
        if (ending === 'threw' || run.isAborted) break;
        if (step.think !== undefined) await this.#think(step.think, ctx);
      }
    } else isOk = await this.#runDependencyGraph(results);
    if (run.isAborted) {
      summary.interrupted += 1;
      return;
    }
    summary.iterations += 1;
    if (!isOk) summary.failed += 1;
    (summary.iterationTimes ??= new Histogram()).record((this.endedMs - (dueMs ?? startMs) - this.#pausedMs) * 1_000);
  }

  async #runDependencyGraph(results: Record<string, unknown>): Promise<boolean> {
    const endings: Promise<Ending>[] = [];
    for (const step of this.#plan.steps) {
      endings[step.place] = this.#whenReady(step, endings, results);
    }
    return (await Promise.all(endings)).every((ending) => ending === 'ok');
  }

  async #whenReady(step: PlannedStep, endings: readonly Promise<Ending>[], results: Record<string, unknown>) {
    const before = await Promise.all((step.after ?? []).map((place) => endings[place] as Promise<Ending>));
    // What it waited for is not there: it did not run, and does not count.
    if (before.includes('threw') || this.#run.isAborted) return 'threw';
    const ctx = this.#contexts[step.place] as AuthorContext;
    const ending = await this.#step(step, ctx, results);
    if (step.think !== undefined && ending !== 'threw') await this.#think(step.think, ctx);
    return ending;
  }

  async #step(step: PlannedStep, ctx: AuthorContext, results: Record<string, unknown>): Promise<Ending> {
    const startMs = this.#run.clock.nowMs();
    ctx.beginStep(step.name);
    let ending: Ending;
    try {
      const given = step.run(ctx);
      results[step.name] = isThenable(given) ? await given : given;
      ending = ctx.hasFailed ? 'failed' : 'ok';
    } catch (error) {
      ending = this.#threw(step, error);
    }
    this.#count(step, ending, startMs);
    return ending;
  }

  #threw(step: PlannedStep, error: unknown): 'threw' {
    this.#run.recordError(step.name, error);
    return 'threw';
  }

  #count(step: PlannedStep, ending: Ending, startMs: number): void {
    const { clock, isAborted } = this.#run;
    this.endedMs = clock.nowMs();
    if (isAborted) return;
    step.counts.durations.record((this.endedMs - startMs) * 1_000);
    if (ending !== 'ok') step.counts.failed += 1;
  }

  async #think(pause: ThinkTime, ctx: AuthorContext): Promise<void> {
    const { clock, sleepers } = this.#run;
    const startMs = clock.nowMs();
    await sleepers.wait(pauseMsOf(pause, ctx));
    this.endedMs = clock.nowMs();
    this.#pausedMs += this.endedMs - startMs;
  }

  /** The pause after an iteration. */
  thinkMs(): number {
    return this.#plan.think === undefined ? 0 : pauseMsOf(this.#plan.think, this.#contexts[0] as AuthorContext);
  }
}

function pauseMsOf({ fromMs, toMs }: ThinkTime, ctx: AuthorContext): number {
  return fromMs === toMs ? fromMs : fromMs + (toMs - fromMs) * ctx.random();
}
