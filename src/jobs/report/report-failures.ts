/** Builds the part of a report about the failed items of a batch: number, messages by frequency, a bounded list. */
import type { WorkflowFacts } from '../workflow-facts.ts';
import { failuresMax } from './bounds.ts';
import type { ItemFailure } from './item-failures.ts';
import type { Summary } from './summary.ts';

export type WorkflowFailures = {
  readonly workflow: string;
  /** Number of all failed items. */
  readonly count: number;
  /** The most frequent first; at most `errorsMax`. */
  readonly messages: readonly { readonly message: string; readonly at: string; readonly count: number }[];
  /** Failed items with other messages. */
  readonly other: number;
  /** At most `failuresMax`, in the order of the items. */
  readonly items: readonly ItemFailure[];
};

export type FailuresInput = {
  readonly facts: Pick<WorkflowFacts, 'name' | 'batch'>;
  readonly failed: number;
  readonly summary: Summary | undefined;
  readonly failures?: readonly ItemFailure[];
};

/** Step name under which a batch counts the errors of its items. */
export const eachName = 'each';

/** Empty for a load test, and for a batch without failed items. */
export function workflowFailures({
  facts,
  failed,
  summary,
  failures = [],
}: FailuresInput): readonly WorkflowFailures[] {
  if (facts.batch === undefined || failed === 0) return [];
  const samples = [...(summary?.errorSamples.values() ?? [])].filter(({ step }) => step === eachName);
  const messages = samples
    .toSorted((a, b) => b.count - a.count || (a.text < b.text ? -1 : 1))
    .map(({ text, place, count }) => ({ message: text, at: place, count }));
  const counted = messages.reduce((sum, { count }) => sum + count, 0);
  return [{ workflow: facts.name, count: failed, messages, other: Math.max(0, failed - counted), items: failures }];
}

/** Lists at most `failuresMax` items over all workflows: `job failures` lists more. */
export function reportFailures(workflows: readonly FailuresInput[]): readonly WorkflowFailures[] {
  let left = failuresMax;
  const lists: WorkflowFailures[] = [];
  for (const one of workflows.flatMap(workflowFailures)) {
    const items = one.items.slice(0, left);
    left -= items.length;
    lists.push({ ...one, items });
  }
  return lists;
}
