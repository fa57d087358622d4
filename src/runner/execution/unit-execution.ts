/**
 * Executes one unit by phase: setup, items, work, teardown. Failures of setup, items and teardown fail the workflow;
 * failures of steps and items are counted.
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
  /** JSON. */
  readonly output?: string | undefined;
  readonly found?: boolean | undefined;
  /** Which items failed (jobs/report/item-failures.ts). */
  readonly failures?: Uint8Array | undefined;
  readonly error?: { readonly code: string; readonly why: string } | undefined;
};

type Done = Pick<UnitExecutionEnd, 'output' | 'found' | 'failures'>;

export class UnitExecution {
  readonly #spec: UnitRunSpec;
  readonly #ports: RunScopePorts;
  readonly run: RunScope;
  #teardown: RunScope | undefined;
  /** Code of it still runs although it is over: its process cannot be used any more. */
  isTainted = false;

  constructor(spec: UnitRunSpec, ports: RunScopePorts) {
    this.#spec = spec;
    this.#ports = ports;
    this.run = new RunScope(spec, ports);
  }

  stop(why: string): void {
    this.run.stop(why);
    this.#teardown?.stop(why);
  }

  async execute(): Promise<UnitExecutionEnd> {
    const startMs = this.run.clock.nowMs();
    const end = await this.#ended();
    const { summary } = this.run;
    summary.activeUsMax = Math.round((this.run.clock.nowMs() - startMs) * 1_000);
    this.run.abort('the run is over');
    if (this.#spec.order.phase !== 'whole' || end.outcome === 'cancelled') return end;
    await this.#afterwards();
    return end;
  }

  async #ended(): Promise<UnitExecutionEnd> {
    const { run } = this;
    try {
      const done = await this.#phase();
      return run.isStopped ? { outcome: 'cancelled' } : { outcome: 'completed', ...done };
    } catch (error) {
      if (run.isStopped) return { outcome: 'cancelled' };
      const known = isRemusterError(error) ? error : new RemusterError('INTERNAL', describeThrown(error));
      return { outcome: 'failed', error: { code: known.code, why: known.message } };
    }
  }

  #phase(): Promise<Done> {
    switch (this.#spec.order.phase) {
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

  async #whole(): Promise<Done> {
    if (this.#spec.defined.setup !== undefined) await this.#setup();
    return this.run.isStopped ? {} : this.#work();
  }

  async #plan(): Promise<Done> {
    const json = await this.#setup();
    const { batch } = this.#spec.defined;
    const isAsked = batch !== undefined && typeof batch.items === 'function' && !this.run.isStopped;
    const items = isAsked ? await this.#itemsByCode(batch) : undefined;
    const output: PlanOutput = {
      ...(json === undefined ? {} : { data: this.run.data }),
      ...(items === undefined ? {} : { items: { count: items.count, ...(items.list && { list: items.list }) } }),
    };
    return { output: resultJson(output) };
  }

  async #setup(): Promise<string | undefined> {
    const { run } = this;
    const given = await this.#authors('setup', () => this.#spec.defined.setup?.(this.#context(run)));
    if (given === undefined) return undefined;
    const json = resultJson(given);
    if (json.length > jobLimits.contextBytesMax)
      throw new RemusterError('TOO_LARGE', `setup gave more than ${jobLimits.contextBytesMax} bytes`);
    run.setData(json);
    return json;
  }

  async #work(): Promise<Done> {
    const { batch, load } = this.#spec.defined;
    if (batch !== undefined) return this.#items(batch);
    return load === undefined ? {} : this.#users(load);
  }

  async #items(batch: CheckedBatch): Promise<Done> {
    const { order } = this.#spec;
    const items = order.items === undefined ? await this.#itemsByCode(batch) : itemsByOrder(order.items, batch);
    const work = new BatchWork(this.run, batch, items);
    await work.run();
    if (this.run.isStopped) return {};
    return { output: work.output(), found: work.isFound || undefined, failures: work.failures() };
  }

  async #itemsByCode(batch: CheckedBatch): Promise<UnitItems> {
    const { items } = batch;
    const given: unknown =
      typeof items === 'function' ? await this.#authors('items', () => items(this.#context(this.run))) : items;
    const known = this.#spec.facts.batch?.items;
    if (Array.isArray(given)) return { from: 0, ...listOf(given, known) };
    const count = typeof given === 'object' && given !== null && 'count' in given ? given.count : given;
    if (typeof count === 'number' && Number.isInteger(count) && count >= 0 && count <= jobLimits.itemsMax)
      return { from: 0, count: known ?? count, list: undefined };
    throw new RemusterError('WORKFLOW_FAILED', 'items: it gave neither a list nor ctx.range(count)');
  }

  /** What setup gave is the value of a load test, for workflows after it. */
  async #users(defined: CheckedLoad): Promise<Done> {
    const { order, facts } = this.#spec;
    const { load } = facts;
    if (load === undefined) throw new RemusterError('BUNDLE_INVALID', `${facts.name} is no load test`);
    const share = {
      unit: order.phase === 'whole' ? 0 : order.unit,
      units: order.phase === 'whole' ? 1 : Math.max(1, order.units),
      firstUser: order.users?.from ?? 0,
      users: order.users?.count ?? load.vus,
      iterations: order.iterations ?? load.iterations,
    };
    const Work = load.ratePerSecond === undefined ? ClosedModelLoad : OpenModelLoad;
    const work = new Work(this.run, defined, load, share);
    await work.run();
    this.isTainted = work.end.isTainted;
    const isOutput = order.phase === 'whole' && this.run.data !== undefined;
    return { output: isOutput ? resultJson(this.run.data) : undefined };
  }

  async #finish(run: RunScope): Promise<Done> {
    await this.#authors('teardown', () => this.#spec.defined.teardown?.(this.#context(run)));
    return {};
  }

  /** Teardown also follows a failure, with a run of its own: the one before it is over. Its mistakes are only told. */
  async #afterwards(): Promise<void> {
    if (this.#spec.defined.teardown === undefined) return;
    const run = new RunScope(this.#spec, this.#ports);
    this.#teardown = run;
    run.setData(this.run.data === undefined ? undefined : resultJson(this.run.data));
    try {
      await this.#finish(run);
    } catch (error) {
      const told = error instanceof Error ? error.message : String(error);
      run.recordError('teardown', told);
      run.log('error', told);
    }
    run.abort('the run is over');
    this.run.summary.merge(run.summary);
  }

  #context(run: RunScope): DataContext<unknown> {
    return new AuthorContext(run, this.#spec.order.phase);
  }

  async #authors(part: string, call: () => unknown): Promise<unknown> {
    try {
      return await call();
    } catch (error) {
      throw new RemusterError('WORKFLOW_FAILED', `${part}: ${describeThrown(error)}`);
    }
  }
}

function itemsByOrder(
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
