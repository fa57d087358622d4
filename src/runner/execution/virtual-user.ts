/**
 * One virtual user: runs the steps of an iteration in sequence or by their dependencies, and counts each. Errors of
 * steps are counted and never thrown.
 */
import { Histogram } from '../../base/histogram.ts';
import type { StepCounts } from '../../jobs/report/summary.ts';
import type { CheckedLoad, ThinkTime, StepDefinition } from '../definition/checked-workflow.ts';
import { AuthorContext } from './author-context.ts';
import type { RunScope } from './run-scope.ts';
import { isThenable } from '../../base/runtime/thenable.ts';

type PlannedStep = StepDefinition & { readonly index: number; readonly counts: StepCounts };

/** The steps of an iteration, shared by all users of a run. */
export type StepPlan = {
  readonly run: RunScope;
  /** In topological order: each step after its dependencies. */
  readonly steps: readonly PlannedStep[];
  readonly isSequence: boolean;
  readonly think: ThinkTime | undefined;
};

export function stepPlanOf(run: RunScope, load: CheckedLoad): StepPlan {
  const steps = load.steps.map((step, index) => ({ ...step, index, counts: run.summary.step(step.name) }));
  return { run, steps: load.isSequence ? steps : sorted(steps), isSequence: load.isSequence, think: load.think };
}

function sorted(steps: readonly PlannedStep[]): readonly PlannedStep[] {
  const inOrder: PlannedStep[] = [];
  const added = new Set<number>();
  const add = (step: PlannedStep): void => {
    if (added.has(step.index)) return;
    added.add(step.index);
    for (const before of step.after ?? []) add(steps[before] as PlannedStep);
    inOrder.push(step);
  };
  for (const step of steps) add(step);
  return inOrder;
}

type StepOutcome = 'ok' | 'failed' | 'threw';

export class VirtualUser {
  readonly #plan: StepPlan;
  readonly #run: RunScope;
  readonly #vu: number;
  /** One context, or one per step if steps run concurrently. */
  readonly #contexts: readonly AuthorContext[];
  #iteration = 0;
  #thinkMs = 0;
  /** When the last step or pause ended. */
  endedMs = 0;

  constructor(plan: StepPlan, vu: number) {
    this.#plan = plan;
    this.#run = plan.run;
    this.#vu = vu;
    const count = plan.isSequence ? 1 : plan.steps.length;
    this.#contexts = Array.from({ length: count }, () => new AuthorContext(plan.run, ''));
  }

  /** `dueMs`: the scheduled start, in the open model. */
  async iterate(dueMs: number | undefined): Promise<void> {
    const run = this.#run;
    const { clock, summary } = run;
    const startMs = clock.nowMs();
    const results: Record<string, unknown> = {};
    for (const ctx of this.#contexts) ctx.startIteration(this.#vu, this.#iteration, results);
    this.#iteration += 1;
    this.#thinkMs = 0;
    this.endedMs = startMs;
    let isOk = true;
    if (this.#plan.isSequence) {
      // Inlined, with one clock read between two steps: the hot path of most load tests.
      const ctx = this.#contexts[0] as AuthorContext;
      for (const step of this.#plan.steps) {
        const stepMs = this.endedMs;
        ctx.startStep(step.name);
        let outcome: StepOutcome;
        try {
          const returned = step.run(ctx);
          results[step.name] = isThenable(returned) ? await returned : returned;
          outcome = ctx.hasFailed ? 'failed' : 'ok';
        } catch (error) {
          outcome = this.#threw(step, error);
        }
        this.#count(step, outcome, stepMs);
        if (outcome !== 'ok') isOk = false;
        if (outcome === 'threw' || run.isAborted) break;
        if (step.think !== undefined) await this.#think(step.think, ctx);
      }
    } else isOk = await this.#runDependencyGraph(results);
    if (run.isAborted) {
      summary.interrupted += 1;
      return;
    }
    summary.iterations += 1;
    if (!isOk) summary.failed += 1;
    (summary.iterationTimes ??= new Histogram()).record((this.endedMs - (dueMs ?? startMs) - this.#thinkMs) * 1_000);
  }

  async #runDependencyGraph(results: Record<string, unknown>): Promise<boolean> {
    const outcomes: Promise<StepOutcome>[] = [];
    for (const step of this.#plan.steps) {
      outcomes[step.index] = this.#whenReady(step, outcomes, results);
    }
    return (await Promise.all(outcomes)).every((outcome) => outcome === 'ok');
  }

  async #whenReady(step: PlannedStep, outcomes: readonly Promise<StepOutcome>[], results: Record<string, unknown>) {
    const before = await Promise.all((step.after ?? []).map((index) => outcomes[index] as Promise<StepOutcome>));
    // Without the result of a dependency the step is not started and not counted.
    if (before.includes('threw') || this.#run.isAborted) return 'threw';
    const ctx = this.#contexts[step.index] as AuthorContext;
    const outcome = await this.#step(step, ctx, results);
    if (step.think !== undefined && outcome !== 'threw') await this.#think(step.think, ctx);
    return outcome;
  }

  async #step(step: PlannedStep, ctx: AuthorContext, results: Record<string, unknown>): Promise<StepOutcome> {
    const startMs = this.#run.clock.nowMs();
    ctx.startStep(step.name);
    let outcome: StepOutcome;
    try {
      const returned = step.run(ctx);
      results[step.name] = isThenable(returned) ? await returned : returned;
      outcome = ctx.hasFailed ? 'failed' : 'ok';
    } catch (error) {
      outcome = this.#threw(step, error);
    }
    this.#count(step, outcome, startMs);
    return outcome;
  }

  #threw(step: PlannedStep, error: unknown): 'threw' {
    this.#run.recordError(step.name, error);
    return 'threw';
  }

  #count(step: PlannedStep, outcome: StepOutcome, startMs: number): void {
    const { clock, isAborted } = this.#run;
    this.endedMs = clock.nowMs();
    if (isAborted) return;
    step.counts.durations.record((this.endedMs - startMs) * 1_000);
    if (outcome !== 'ok') step.counts.failed += 1;
  }

  async #think(think: ThinkTime, ctx: AuthorContext): Promise<void> {
    const { clock, sleeps } = this.#run;
    const startMs = clock.nowMs();
    await sleeps.wait(drawThinkMs(think, ctx));
    this.endedMs = clock.nowMs();
    this.#thinkMs += this.endedMs - startMs;
  }

  /** The pause after an iteration. */
  thinkMs(): number {
    return this.#plan.think === undefined ? 0 : drawThinkMs(this.#plan.think, this.#contexts[0] as AuthorContext);
  }
}

function drawThinkMs({ fromMs, toMs }: ThinkTime, ctx: AuthorContext): number {
  return fromMs === toMs ? fromMs : fromMs + (toMs - fromMs) * ctx.random();
}
