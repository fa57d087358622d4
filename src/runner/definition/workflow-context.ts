/**
 * Types of the `ctx` of workflow functions. A context is valid until its function returns. author-context.ts implements
 * it.
 */
import type { LogLevel } from '../../base/ports.ts';
import type { HttpClient } from './http-types.ts';

declare const result: unique symbol;
/** A definition made by `workflow()`. V is its result for later workflows: values of a batch, data of a load test. */
export type WorkflowDefinition<V = unknown> = { readonly name: string; readonly [result]?: V };

export type Metrics = {
  /** Adds a whole number, 1 if left out. */
  readonly count: (name: string, by?: number) => void;
  /** The report shows the smallest, the largest and the last value. */
  readonly gauge: (name: string, value: number) => void;
  /** The report shows the share of true values. */
  readonly rate: (name: string, isHit: boolean) => void;
  /** A duration in milliseconds; the report shows percentiles. */
  readonly trend: (name: string, valueMs: number) => void;
};

/** The numbers from 0 to `count` - 1, without a list in memory. */
export type ItemRange = Iterable<number> & { readonly count: number };

export type From = {
  <V>(workflow: WorkflowDefinition<V>): V;
  // The type of a result is unknown by name.
  // oxlint-disable-next-line typescript/no-explicit-any
  (workflow: string): any;
};

export type Check = {
  <T>(value: T, predicate: (value: T) => boolean, name?: string): boolean;
  <T>(value: T, predicates: Readonly<Record<string, (value: T) => boolean>>): boolean;
};

/** Its functions work without their object, too: `({ http, check }) => ...`. */
export type SetupContext = {
  /** The variables of the workflow (`env`), overridden by those of the job (`--env`). */
  readonly env: Readonly<Record<string, string>>;
  readonly job: string;
  readonly workflow: string;
  /** The result of an earlier workflow, which must be listed in `after`. */
  readonly from: From;
  readonly http: HttpClient;
  readonly metrics: Metrics;
  /** Records whether the value satisfies a predicate. A failed check does not throw, but its step counts as failed. */
  readonly check: Check;
  /** From 0 up to 1, from the seed of the job: an item or user gets the same numbers in every attempt. */
  readonly random: () => number;
  readonly range: (count: number) => ItemRange;
  /** Rejects with CANCELLED when the run is cancelled. */
  readonly sleep: (durationMs: number) => Promise<void>;
  /** Aborted when the run is cancelled or its time is up. */
  readonly signal: AbortSignal;
  readonly log: (message: string, level?: LogLevel) => void;
  /** Grows with each attempt: a system that remembers the highest fence can refuse superseded attempts. */
  readonly fence: string;
  /** Equal in all attempts of the same item or iteration, for effects that must happen once. */
  readonly idempotencyKey: string;
};

/** `data` is the result of setup. */
export type DataContext<D> = SetupContext & { readonly data: D };

// The types of results are unknown before the functions that return them: names are checked, values are not. A flow
// (Flow in workflow.ts), which adds its steps one after the other, checks both.
// oxlint-disable-next-line typescript/no-explicit-any
export type StepContext<D, Names extends string> = FlowContext<D, { readonly [N in Names]: any }>;

export type FlowContext<D, Results> = DataContext<D> & {
  /** Results of the earlier steps of this iteration, by name. */
  readonly results: Results;
  /** Index of this user among all users, from 0 on. */
  readonly vu: number;
  /** Index of this iteration of the user, from 0 on. */
  readonly iteration: number;
};

export type EachContext<D> = DataContext<D> & {
  /** Index of this item among all items, from 0 on. */
  readonly index: number;
};
