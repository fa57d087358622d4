/**
 * The public workflow API: the types of load tests and batch jobs, and `workflow()`, which validates a definition.
 * Never runs anything.
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
/** A pause; one between two bounds is drawn anew each time. */
export type Think = Duration | readonly [from: Duration, to: Duration];

export type Thresholds = Readonly<Record<string, readonly string[]>>;

type Common<D> = {
  /** How many cores it may use at one time, 1 if left out. */
  readonly cores?: number;
  /** Names of workflows that have to be COMPLETED or PARTIAL first. */
  readonly after?: readonly string[];
  readonly timeout?: Duration;
  /** How often work that was lost with its worker begins anew elsewhere, 3 if left out; 0 is at most once. */
  readonly retries?: number;
  /** May the code use the network? Load tests may unless told otherwise, batch jobs only if told so. */
  readonly network?: boolean;
  /** Of one runner: megabytes, or text such as '512mb', '1gb'. */
  readonly memory?: number | string;
  readonly env?: Readonly<Record<string, string>>;
  /** By metric (`http.duration`, `failed`, `step.NAME`, ...): conditions such as 'p(99)<250ms'. */
  readonly thresholds?: Thresholds;
  /** Runs once, before everything else; all others get what it gives as `ctx.data`, as JSON. */
  readonly setup?: (ctx: SetupContext) => D | Promise<D>;
  /** Runs once, after everything else, also after a failure. */
  readonly teardown?: (ctx: DataContext<D>) => unknown;
};

type StepRun<D, Names extends string> = (ctx: StepContext<D, Names>) => unknown;

export type StepSpec<D, Names extends string> = {
  /** Steps that have to end first. Steps whose turn comes together run together. Without any `after` all go in order. */
  readonly after?: readonly NoInfer<Names>[];
  readonly run: StepRun<D, Names>;
  /** A pause after this step. */
  readonly think?: Think;
};

/** Users, or arrivals where there is a rate, go straight to `target` within `duration`. */
export type StageSpec = { readonly duration: Duration; readonly target: number };

/** Steps one after the other, each knowing what those before it gave: `(flow) => flow.step('browse', ...).step(...)`. */
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
  /** Users that work at one time, 1 if left out; with a rate the most that there may be. */
  readonly vus?: number;
  readonly duration?: Duration;
  /** Of all users together. */
  readonly iterations?: number;
  readonly stages?: readonly StageSpec[];
  /** Iterations that begin each second, however long the answers take; with `stages` where it begins. */
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
  /** What there is to do: a list, a number (0 to n - 1), or a function that says it after setup. */
  readonly items: ItemsOf<D, I>;
  readonly each: (item: I, ctx: EachContext<D>) => R | Promise<R>;
  /** How many items one core works on at one time, 1 if left out. */
  readonly concurrency?: number;
  /** Ends everything with the first item whose `each` gives something other than undefined, null or false. */
  readonly first?: boolean;
  /** Are the values that `each` gives kept? True if left out. */
  readonly results?: boolean;
  /** How many items are given to a worker at one time; what is lost with a worker is at most so much. */
  readonly unitItems?: number;
} & FailurePolicy;

/**
 * What an item means whose `each` threw. `fail` (if left out): the others still run, and the batch fails if more than
 * `maxFailures` (0) items failed, else it ends as PARTIAL. `stop`: nothing new begins after the first one, and the batch
 * fails. `continue`: PARTIAL however many failed, if at least one completed.
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
