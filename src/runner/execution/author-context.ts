/**
 * Implements `ctx`. One instance per user or item slot is reused, because a new one could cost more than the item
 * itself. Members are created on first use and work without their object: authors write `({ http, check }) =>`.
 */
import { RemusterError } from '../../base/errors.ts';
import type { LogLevel } from '../../base/ports.ts';
import { Random } from '../../base/random.ts';
import { jobLimits } from '../../jobs/limits.ts';
import { nameBytesMax } from '../../jobs/report/bounds.ts';
import type { Metrics, ItemRange, WorkflowDefinition } from '../definition/workflow-context.ts';
import type { HttpClient } from '../definition/http-types.ts';
import { authorMetrics } from './author-metrics.ts';
import type { RunScope } from './run-scope.ts';
import { truncateUtf8 } from './user-errors.ts';

type Predicate = (value: unknown) => unknown;
type Check = (value: unknown, predicate: Predicate | Readonly<Record<string, Predicate>>, name?: string) => boolean;

const sleepMsMax = 7 * 86_400_000;

export class AuthorContext {
  readonly #run: RunScope;
  #random: Random | undefined;
  #http: HttpClient | undefined;
  #metrics: Metrics | undefined;
  #check: Check | undefined;
  #hasChecked = false;
  #hasFailedCheck = false;
  #hasFailedRequest = false;
  /** The step or phase to which errors and checks are attributed. */
  #step: string;
  data: unknown;
  results: Record<string, unknown> = {};
  vu = 0;
  iteration = 0;
  index = 0;

  constructor(run: RunScope, step: string) {
    this.#run = run;
    this.#step = step;
    this.data = run.data;
  }

  startItem(index: number): void {
    this.index = index;
    this.#random = undefined;
    this.#hasChecked = false;
    this.#hasFailedCheck = false;
    this.#hasFailedRequest = false;
  }

  startIteration(vu: number, iteration: number, results: Record<string, unknown>): void {
    this.vu = vu;
    this.iteration = iteration;
    this.results = results;
    this.#random = undefined;
  }

  startStep(step: string): void {
    this.#step = step;
    this.#hasChecked = false;
    this.#hasFailedCheck = false;
    this.#hasFailedRequest = false;
  }

  /** For a step that did not throw: checks decide; without checks the requests do. */
  get hasFailed(): boolean {
    return this.#hasChecked ? this.#hasFailedCheck : this.#hasFailedRequest;
  }

  get env(): Readonly<Record<string, string>> {
    return this.#run.env;
  }

  get job(): string {
    return this.#run.unit.job;
  }

  get workflow(): string {
    return this.#run.facts.name;
  }

  get fence(): string {
    return this.#run.fence;
  }

  get idempotencyKey(): string {
    const { job, workflow } = this.#run.unit;
    return this.#run.workflow.batch === undefined
      ? `${job}/${workflow}/${this.vu}/${this.iteration}`
      : `${job}/${workflow}/${this.index}`;
  }

  get signal(): AbortSignal {
    return this.#run.signal;
  }

  get http(): HttpClient {
    return (this.#http ??= this.#run.http.clientFor({
      recordRequest: (record) => {
        if (!record.ok) this.#hasFailedRequest = true;
        this.#run.recordRequest(record);
      },
    }));
  }

  get metrics(): Metrics {
    return (this.#metrics ??= authorMetrics(this.#run));
  }

  get from(): (workflow: WorkflowDefinition | string) => unknown {
    return (workflow) => this.#run.from(typeof workflow === 'string' ? workflow : workflow.name);
  }

  get random(): () => number {
    return () => {
      this.#random ??= new Random(`${this.#run.unit.seed}/${this.#randomName()}`);
      return this.#random.fraction();
    };
  }

  get range(): (count: number) => ItemRange {
    return rangeOf;
  }

  get sleep(): (durationMs: number) => Promise<void> {
    return (durationMs) => {
      if (typeof durationMs === 'number' && durationMs >= 0 && durationMs <= sleepMsMax)
        return this.#run.sleeps.sleep(durationMs);
      throw new RemusterError(
        'BAD_ARGUMENT',
        `sleep takes milliseconds from 0 to ${sleepMsMax}, not ${String(durationMs)}`,
      );
    };
  }

  get log(): (message: unknown, level?: LogLevel) => void {
    return (message, level = 'info') => this.#run.log(level, String(message));
  }

  get check(): Check {
    return (this.#check ??= (value, predicate, name) => {
      if (typeof predicate === 'function') return this.#checked(value, predicate, name ?? this.#step);
      let isOk = true;
      for (const [key, part] of Object.entries(predicate)) isOk = this.#checked(value, part, key) && isOk;
      return isOk;
    });
  }

  /** A predicate that throws is a failed check: the value does not have the expected shape. */
  #checked(value: unknown, predicate: Predicate, name: string): boolean {
    let isOk = false;
    try {
      isOk = Boolean(predicate(value));
    } catch (error) {
      // Recorded as 'check', because errors of `each` are failed items.
      this.#run.recordError(this.#run.facts.batch === undefined ? this.#step : 'check', error);
    }
    this.#hasChecked = true;
    if (!isOk) this.#hasFailedCheck = true;
    if (!this.#run.isAborted) this.#run.summary.check(truncateUtf8(name, nameBytesMax * 3), isOk);
    return isOk;
  }

  #randomName(): string {
    return this.#run.workflow.batch === undefined ? `${this.vu}.${this.iteration}` : String(this.index);
  }
}

function rangeOf(count: number): ItemRange {
  if (!Number.isInteger(count) || count < 0 || count > jobLimits.itemsMax)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `range takes a whole number from 0 to ${jobLimits.itemsMax}, not ${String(count)}`,
    );
  return {
    count,
    *[Symbol.iterator]() {
      for (let i = 0; i < count; i++) yield i;
    },
  };
}
