/**
 * Types of the `ctx` that workflow functions receive. A context is valid until its function returns. author-context.ts
 * implements it.
 */
import type { LogLevel } from '../../base/ports.ts';
import type { HttpClient } from './http-types.ts';

declare const given: unique symbol;
/** What `workflow()` returns. V is what later workflows get from it: the results of a batch, the data of a load test. */
export type WorkflowDefinition<V = unknown> = { readonly name: string; readonly [given]?: V };

export type Metrics = {
  /** Adds a whole number, 1 if left out. */
  readonly count: (name: string, by?: number) => void;
  /** The report shows the smallest, the largest and the last. */
  readonly gauge: (name: string, value: number) => void;
  /** The share of those that were true. */
  readonly rate: (name: string, isHit: boolean) => void;
  /** A time in milliseconds; the report shows percentiles. */
  readonly trend: (name: string, valueMs: number) => void;
};

/** The numbers from 0 to `count` - 1, without making a list of them. */
export type ItemRange = Iterable<number> & { readonly count: number };

export type From = {
  <V>(workflow: WorkflowDefinition<V>): V;
  // By name nobody can know what it is.
  // oxlint-disable-next-line typescript/no-explicit-any
  (workflow: string): any;
};

export type Check = {
  <T>(value: T, predicate: (value: T) => boolean, name?: string): boolean;
  <T>(value: T, predicates: Readonly<Record<string, (value: T) => boolean>>): boolean;
};

/** Its functions also work alone: `({ http, check }) => ...`. */
export type SetupContext = {
  /** The variables of the workflow (`env`) and those of the job (`--env`), which go first. */
  readonly env: Readonly<Record<string, string>>;
  readonly job: string;
  readonly workflow: string;
  /** What a workflow before this one gave; it has to stand in `after`. */
  readonly from: From;
  readonly http: HttpClient;
  readonly metrics: Metrics;
  /** Counts whether the value is as it should be. A check that fails throws nothing, but its step counts as failed. */
  readonly check: Check;
  /** From 0 up to 1, drawn from the seed of the job: the same item or user draws the same numbers in each attempt. */
  readonly random: () => number;
  readonly range: (count: number) => ItemRange;
  /** Ends early, with CANCELLED, when the run is cancelled. */
  readonly sleep: (durationMs: number) => Promise<void>;
  /** Aborted when the run is cancelled or its time is over. */
  readonly signal: AbortSignal;
  readonly log: (message: string, level?: LogLevel) => void;
  /** Grows with each attempt. A system that remembers the highest one it has seen can refuse superseded attempts. */
  readonly fence: string;
  /** The same with each attempt of the same item (or iteration): for effects that have to happen once. */
  readonly idempotencyKey: string;
};

/** What setup gave, for everything after it. */
export type DataContext<D> = SetupContext & { readonly data: D };

// Types of results would have to be known before the functions that give them: names are checked, values are not.
// Where steps are given one after the other (Flow in workflow.ts) both are.
// oxlint-disable-next-line typescript/no-explicit-any
export type StepContext<D, Names extends string> = FlowContext<D, { readonly [N in Names]: any }>;

export type FlowContext<D, Results> = DataContext<D> & {
  /** What the steps before this one gave in this iteration, by name. */
  readonly results: Results;
  /** The number of this user among all, from 0 on. */
  readonly vu: number;
  /** The how-manyth iteration of this user, from 0 on. */
  readonly iteration: number;
};

export type EachContext<D> = DataContext<D> & {
  /** The place of this item among all, from 0 on. */
  readonly index: number;
};
