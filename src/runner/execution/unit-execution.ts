/**
 * Executes one unit by its phase: plan (setup and items), work, finish (teardown), or whole (all of them). An error in
 * setup, items or finish fails the workflow; errors of steps and items are counted.
 */
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { jobLimits } from '../../jobs/limits.ts';
import type { PlanOutput } from '../../jobs/unit-spec.ts';
import { OpenModelLoad } from './open-load.ts';
import { BatchWork, type UnitItems, resultJson } from './batch-work.ts';
import type { DataContext } from '../definition/workflow-context.ts';
import type { CheckedBatch, CheckedLoad } from '../definition/checked-workflow.ts';
import { AuthorContext } from './author-context.ts';
import { RunScope, type RunScopePorts, type UnitRunSpec } from './run-scope.ts';
import { describeThrown } from './user-errors.ts';
import { ClosedModelLoad } from './closed-load.ts';

export type UnitExecutionEnd = {
  readonly outcome: 'completed' | 'failed' | 'cancelled';
  /** The result, as JSON. */
  readonly output?: string | undefined;
  readonly found?: boolean | undefined;
  /** The failed items, encoded (jobs/report/item-failures.ts). */
  readonly failures?: Uint8Array | undefined;
  readonly error?: { readonly code: string; readonly message: string } | undefined;
};

type PhaseResult = Pick<UnitExecutionEnd, 'output' | 'found' | 'failures'>;

export class UnitExecution {
  readonly #spec: UnitRunSpec;
  readonly #ports: RunScopePorts;
  readonly run: RunScope;
  #teardownRun: RunScope | undefined;
  /** Code of the ended unit is still running: its process must not execute another run. */
  isTainted = false;

  constructor(spec: UnitRunSpec, ports: RunScopePorts) {
    this.#spec = spec;
    this.#ports = ports;
    this.run = new RunScope(spec, ports);
  }

  stop(why: string): void {
    this.run.stop(why);
    this.#teardownRun?.stop(why);
  }

  async execute(): Promise<UnitExecutionEnd> {
    const startMs = this.run.clock.nowMs();
    const end = await this.#executePhase();
    const { summary } = this.run;
    summary.activeUsMax = Math.round((this.run.clock.nowMs() - startMs) * 1_000);
    this.run.abort('the run has ended');
    if (this.#spec.unit.phase !== 'whole' || end.outcome === 'cancelled') return end;
    await this.#teardownAfterEnd();
    return end;
  }

  async #executePhase(): Promise<UnitExecutionEnd> {
    const { run } = this;
    try {
      const result = await this.#phase();
      return run.isStopped ? { outcome: 'cancelled' } : { outcome: 'completed', ...result };
    } catch (error) {
      if (run.isStopped) return { outcome: 'cancelled' };
      const { code, message } = isRemusterError(error) ? error : new RemusterError('INTERNAL', describeThrown(error));
      return { outcome: 'failed', error: { code, message } };
    }
  }

  #phase(): Promise<PhaseResult> {
    switch (this.#spec.unit.phase) {
      case 'plan':
        return this.#plan();
      case 'work':
        return this.#work();
      case 'finish':
        return this.#finish(this.run);
      case 'whole':
    }
    return this.#whole();
  }

  async #whole(): Promise<PhaseResult> {
    if (this.#spec.workflow.setup !== undefined) await this.#setup();
    return this.run.isStopped ? {} : this.#work();
  }

  async #plan(): Promise<PhaseResult> {
    const json = await this.#setup();
    const { batch } = this.#spec.workflow;
    const computesItems = batch !== undefined && typeof batch.items === 'function' && !this.run.isStopped;
    const items = computesItems ? await this.#computeItems(batch) : undefined;
    const output: PlanOutput = {
      ...(json === undefined ? {} : { data: this.run.data }),
      ...(items === undefined ? {} : { items: { count: items.count, ...(items.list && { list: items.list }) } }),
    };
    return { output: resultJson(output) };
  }

  async #setup(): Promise<string | undefined> {
    const { run } = this;
    const returned = await this.#callAuthor('setup', () => this.#spec.workflow.setup?.(this.#context(run)));
    if (returned === undefined) return undefined;
    const json = resultJson(returned);
    if (json.length > jobLimits.contextBytesMax)
      throw new RemusterError('TOO_LARGE', `the result of setup has more than ${jobLimits.contextBytesMax} bytes`);
    run.setData(json);
    return json;
  }

  async #work(): Promise<PhaseResult> {
    const { batch, load } = this.#spec.workflow;
    if (batch !== undefined) return this.#workOnItems(batch);
    return load === undefined ? {} : this.#runUsers(load);
  }

  async #workOnItems(batch: CheckedBatch): Promise<PhaseResult> {
    const { unit } = this.#spec;
    const items = unit.items === undefined ? await this.#computeItems(batch) : assignedItems(unit.items, batch);
    const work = new BatchWork(this.run, batch, items);
    await work.run();
    if (this.run.isStopped) return {};
    return { output: work.output(), found: work.isFound || undefined, failures: work.failures() };
  }

  async #computeItems(batch: CheckedBatch): Promise<UnitItems> {
    const { items } = batch;
    const returned: unknown =
      typeof items === 'function' ? await this.#callAuthor('items', () => items(this.#context(this.run))) : items;
    const known = this.#spec.facts.batch?.items;
    if (Array.isArray(returned)) return { from: 0, ...listOf(returned, known) };
    const isRange = typeof returned === 'object' && returned !== null && 'count' in returned;
    const count = isRange ? returned.count : returned;
    if (typeof count === 'number' && Number.isInteger(count) && count >= 0 && count <= jobLimits.itemsMax)
      return { from: 0, count: known ?? count, list: undefined };
    throw new RemusterError('WORKFLOW_FAILED', 'items must return a list or ctx.range(count)');
  }

  /** The result of a load test is that of its setup. */
  async #runUsers(checked: CheckedLoad): Promise<PhaseResult> {
    const { unit, facts } = this.#spec;
    const { load } = facts;
    if (load === undefined) throw new RemusterError('BUNDLE_INVALID', `${facts.name} is not a load test`);
    const share = {
      unit: unit.phase === 'whole' ? 0 : unit.unit,
      units: unit.phase === 'whole' ? 1 : Math.max(1, unit.units),
      firstUser: unit.users?.from ?? 0,
      users: unit.users?.count ?? load.vus,
      iterations: unit.iterations ?? load.iterations,
    };
    const Model = load.ratePerSecond === undefined ? ClosedModelLoad : OpenModelLoad;
    const work = new Model(this.run, checked, load, share);
    await work.run();
    this.isTainted = work.deadline.isTainted;
    const hasOutput = unit.phase === 'whole' && this.run.data !== undefined;
    return { output: hasOutput ? resultJson(this.run.data) : undefined };
  }

  async #finish(run: RunScope): Promise<PhaseResult> {
    await this.#callAuthor('teardown', () => this.#spec.workflow.teardown?.(this.#context(run)));
    return {};
  }

  /**
   * Runs teardown, also after a failure, in a run of its own, because the first has ended. Its errors are only logged.
   */
  async #teardownAfterEnd(): Promise<void> {
    if (this.#spec.workflow.teardown === undefined) return;
    const run = new RunScope(this.#spec, this.#ports);
    this.#teardownRun = run;
    run.setData(this.run.data === undefined ? undefined : resultJson(this.run.data));
    try {
      await this.#finish(run);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      run.recordError('teardown', message);
      run.log('error', message);
    }
    run.abort('the run has ended');
    this.run.summary.merge(run.summary);
  }

  #context(run: RunScope): DataContext<unknown> {
    return new AuthorContext(run, this.#spec.unit.phase);
  }

  async #callAuthor(name: string, call: () => unknown): Promise<unknown> {
    try {
      return await call();
    } catch (error) {
      throw new RemusterError('WORKFLOW_FAILED', `${name}: ${describeThrown(error)}`);
    }
  }
}

function assignedItems(
  { from, count, list }: { readonly from: number; readonly count: number; readonly list: string | undefined },
  { items }: CheckedBatch,
): UnitItems {
  if (list !== undefined) return { from, count, list: JSON.parse(list) as readonly unknown[] };
  return {
    from,
    count,
    list: Array.isArray(items) ? (items as readonly unknown[]).slice(from, from + count) : undefined,
  };
}

function listOf(list: readonly unknown[], known: number | undefined): { count: number; list: readonly unknown[] } {
  return { count: Math.min(list.length, known ?? Infinity), list };
}
