/**
 * A validated workflow: its facts and the functions of its author. Values that a submitter can override are in the
 * facts only.
 */
import type { WorkflowFacts } from '../../jobs/workflow-facts.ts';
import type { DataContext, EachContext, SetupContext, StepContext, WorkflowDefinition } from './workflow-context.ts';

/** A registered symbol, because a bundle may contain another copy of the package. */
const definitionKey = Symbol.for('remuster.workflow');

/** A pause between two bounds; equal bounds are a fixed pause. */
export type ThinkTime = { readonly fromMs: number; readonly toMs: number };

export type StepDefinition = {
  readonly name: string;
  /** Indexes of the steps that must end before it; undefined: the preceding step. */
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
  /** No step has `after`: the steps run one after the other. */
  readonly isSequence: boolean;
  readonly think: ThinkTime | undefined;
};

export type CheckedBatch = {
  readonly items: readonly unknown[] | number | ((ctx: DataContext<unknown>) => unknown);
  readonly each: (item: unknown, ctx: EachContext<unknown>) => unknown;
  /** As set in the definition. */
  readonly unitItems: number | undefined;
};

export function checkedWorkflowOf(value: unknown): CheckedWorkflow | undefined {
  if (typeof value !== 'object' || value === null || !(definitionKey in value)) return undefined;
  return (value as { readonly [definitionKey]: CheckedWorkflow })[definitionKey];
}

export function toWorkflowDefinition(checked: CheckedWorkflow): WorkflowDefinition {
  return Object.freeze({ name: checked.facts.name, [definitionKey]: checked });
}
