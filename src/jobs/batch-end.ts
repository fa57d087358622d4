/**
 * Decides how a batch ends from its counts and options (docs/guides/jobs.md, "How a batch ends"). A pure function; the
 * report evaluates thresholds.
 */
import { type WorkflowFacts, hasFailedThreshold } from './workflow-facts.ts';

export type BatchCounts = {
  /** Disjoint from `failed`. */
  readonly completed: number;
  readonly failed: number;
  /** The first success ended the batch (`first: true`). */
  readonly isFound: boolean;
};

export type BatchEnd = 'COMPLETED' | 'PARTIAL' | 'FAILED';

export function batchEnd(
  facts: Pick<WorkflowFacts, 'batch' | 'thresholds'>,
  { completed, failed, isFound }: BatchCounts,
): BatchEnd {
  if (failed === 0 || isFound || facts.batch === undefined || hasFailedThreshold(facts)) return 'COMPLETED';
  const { onItemError = 'fail', maxFailures = 0 } = facts.batch;
  const isTolerated = onItemError === 'continue' || (onItemError === 'fail' && failed <= maxFailures);
  return isTolerated && completed > 0 ? 'PARTIAL' : 'FAILED';
}
