/**
 * The public workflow API: the types of load tests and batches, and `workflow()`, which validates a definition.
 * Executes no workflow.
 */
import type {
  DataContext,
  EachContext,
  FlowContext,
  ItemRange,
  SetupContext,
  StepContext,
  WorkflowDefinition,
} from './workflow-context.ts';
import { validateWorkflowSpec } from './spec-validation.ts';

/** Milliseconds, or text such as '250ms', '30s', '5m', '1h'. */
export type Duration = number | string;
/** A pause; between two bounds it is drawn each time. */
export type Think = Duration | readonly [from: Duration, to: Duration];

export type Thresholds = Readonly<Record<string, readonly string[]>>;

type Common<D> = {
  /** Cores to use at a time, 1 if left out. */
  readonly cores?: number;
  /** Names of workflows that must be COMPLETED or PARTIAL first. */
  readonly after?: readonly string[];
  readonly timeout?: Duration;
  /** Retries of a unit that was lost with its worker, 3 if left out; 0 is at most once. */
  readonly retries?: number;
  /** Whether the code may use the network. If left out: true for load tests, false for batches. */
  readonly network?: boolean;
  /** Memory of one runner: megabytes, or text such as '512mb', '1gb'. */
  readonly memory?: number | string;
  readonly env?: Readonly<Record<string, string>>;
  /** By metric (`http.duration`, `failed`, `step.NAME`, ...): conditions such as 'p(99)<250ms'. */
  readonly thresholds?: Thresholds;
  /** Runs once, first. Its result, as JSON, is the `ctx.data` of all other functions. */
  readonly setup?: (ctx: SetupContext) => D | Promise<D>;
  /** Runs once, last, also after a failure. */
  readonly teardown?: (ctx: DataContext<D>) => unknown;
};

type StepRun<D, Names extends string> = (ctx: StepContext<D, Names>) => unknown;

export type StepSpec<D, Names extends string> = {
  /** Steps that must end first; ready steps run concurrently. Without any `after` the steps run in order. */
  readonly after?: readonly NoInfer<Names>[];
  readonly run: StepRun<D, Names>;
  /** A pause after this step. */
  readonly think?: Think;
};

/** Changes the users, or the arrivals of a rate, linearly to `target` within `duration`. */
export type StageSpec = { readonly duration: Duration; readonly target: number };

/** Steps in order, each with the typed results of earlier ones: `(flow) => flow.step('browse', ...).step(...)`. */
export type Flow<D, Results> = {
  step<const N extends string, T>(
    name: N,
    run: (ctx: FlowContext<D, Results>) => T | Promise<T>,
    options?: { readonly think?: Think },
  ): Flow<D, Results & { readonly [K in N]: T }>;
};

export type LoadSpec<D, Names extends string> = LoadShape<D> & {
  readonly steps: { readonly [N in Names]: StepRun<D, Names> | StepSpec<D, Names> };
};

export type FlowSpec<D> = LoadShape<D> & { readonly steps: (flow: Flow<D, object>) => Flow<D, object> };

type LoadShape<D> = Common<D> & {
  readonly items?: undefined;
  readonly each?: undefined;
  readonly onItemError?: undefined;
  readonly maxFailures?: undefined;
  /** Concurrent users, 1 if left out; with a rate the maximum. */
  readonly vus?: number;
  readonly duration?: Duration;
  /** Iterations of all users together. */
  readonly iterations?: number;
  readonly stages?: readonly StageSpec[];
  /** Iterations that start per second, whatever responses take; with `stages` the rate at the start. */
  readonly rate?: number;
  /** A pause after each iteration. */
  readonly think?: Think;
};

export type ItemsOf<D, I> =
  | readonly I[]
  | number
  | ((ctx: DataContext<D>) => readonly I[] | ItemRange | Promise<readonly I[] | ItemRange>);

export type BatchSpec<D, I, R> = Common<D> & {
  readonly steps?: undefined;
  /** The items: a list, a number n (0 to n - 1), or a function that returns them after setup. */
  readonly items: ItemsOf<D, I>;
  readonly each: (item: I, ctx: EachContext<D>) => R | Promise<R>;
  /** Items that one core processes concurrently, 1 if left out. */
  readonly concurrency?: number;
  /** Ends the batch with the first item whose `each` returns something other than undefined, null or false. */
  readonly first?: boolean;
  /** Whether the results of `each` are kept, true if left out. */
  readonly results?: boolean;
  /** Items per unit: the most that is repeated when a worker is lost. */
  readonly unitItems?: number;
} & FailurePolicy;

/**
 * The effect of an item whose `each` throws. `fail` (if left out): the other items still run; with more than
 * `maxFailures` (0) failed items the batch fails, else it is PARTIAL. `stop`: no item starts after the first failure,
 * and the batch fails. `continue`: PARTIAL, however many failed, if at least one completed.
 */
export type FailurePolicy =
  | { readonly onItemError?: 'fail'; readonly maxFailures?: number }
  | { readonly onItemError: 'stop' | 'continue'; readonly maxFailures?: undefined };

export function workflow<D = undefined>(name: string, spec: FlowSpec<D>): WorkflowDefinition<D>;
export function workflow<D = undefined, Names extends string = string>(
  name: string,
  spec: LoadSpec<D, Names>,
): WorkflowDefinition<D>;
export function workflow<D = undefined, I = number, R = unknown>(
  name: string,
  spec: BatchSpec<D, I, R> & { readonly first: true },
): WorkflowDefinition<R | null>;
export function workflow<D = undefined, I = number, R = unknown>(
  name: string,
  spec: BatchSpec<D, I, R>,
): WorkflowDefinition<(R | null)[]>;
export function workflow(name: string, spec: unknown): WorkflowDefinition {
  return validateWorkflowSpec(name, spec);
}
