/**
 * A validated workflow: the author's functions and its facts. What a submitter may override stands in the facts only.
 */
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import type { DataContext, EachContext, SetupContext, StepContext, WorkflowDefinition } from './workflow-context.ts';

/** Recognised by a registered symbol: a bundle may have been made with another copy of the package. */
const definitionKey = Symbol.for('remuster.workflow');

/** A pause in milliseconds; equal bounds are a fixed one. */
export type ThinkTime = { readonly fromMs: number; readonly toMs: number };

export type StepDefinition = {
  readonly name: string;
  /** Places of the steps that have to end before it; undefined: the one before it in the list. */
  readonly after: readonly number[] | undefined;
  readonly run: (ctx: StepContext<unknown, string>) => unknown;
  readonly think: ThinkTime | undefined;
};

export type CheckedWorkflow = {
  readonly facts: WorkflowFacts;
  readonly env: Readonly<Record<string, string>>;
  readonly setup: ((ctx: SetupContext) => unknown) | undefined;
  readonly teardown: ((ctx: DataContext<unknown>) => unknown) | undefined;
  readonly load: CheckedLoad | undefined;
  readonly batch: CheckedBatch | undefined;
};

export type CheckedLoad = {
  readonly steps: readonly StepDefinition[];
  /** No step says `after`: one follows the other, which needs no bookkeeping. */
  readonly isSequence: boolean;
  readonly think: ThinkTime | undefined;
};

export type CheckedBatch = {
  readonly items: readonly unknown[] | number | ((ctx: DataContext<unknown>) => unknown);
  readonly each: (item: unknown, ctx: EachContext<unknown>) => unknown;
  /** As the author wants it. */
  readonly unitItems: number | undefined;
};

export function checkedWorkflowOf(value: unknown): CheckedWorkflow | undefined {
  if (typeof value !== 'object' || value === null || !(definitionKey in value)) return undefined;
  return (value as { readonly [definitionKey]: CheckedWorkflow })[definitionKey];
}

export function toWorkflowDefinition(defined: CheckedWorkflow): WorkflowDefinition {
  return Object.freeze({ name: defined.facts.name, [definitionKey]: defined });
}
