/** The error of a job that did not complete: code, status, counts, the first failed items. Never sends a request. */
import { RemusterError, isRemusterError, parseErrorCode, withPossibleEffect } from '../base/errors.ts';
import type { JobOutcome, JobStatus, JobView } from '../jobs/job-types.ts';
import { failuresMax } from '../jobs/report/bounds.ts';
import type { ItemFailure } from '../jobs/report/item-failures.ts';
import type { WorkflowFailures } from '../jobs/report/report-failures.ts';

/** `PARTIAL` when some items failed and that is tolerated, else the code of the job (`WORKFLOW_FAILED`, ...). */
export type JobFailure = RemusterError & {
  readonly jobId: string;
  readonly status: JobStatus;
  /** Items (or iterations) that completed. */
  readonly completed: number;
  readonly failed: number;
  /** The first 1,000 failed items. */
  readonly failures: readonly (ItemFailure & { readonly workflow: string })[];
};

const statusCodes = { PARTIAL: 'PARTIAL', CANCELLED: 'CANCELLED', TIMEOUT: 'WORKFLOW_TIMEOUT' } as const;

export function createJobFailure(
  { jobId, status, error }: JobOutcome,
  { completed, failed }: JobView['totals'],
  lists: readonly WorkflowFailures[],
): JobFailure {
  const failures = lists.flatMap(({ workflow, items }) => items.map((item) => ({ workflow, ...item })));
  const details = { jobId, status, completed, failed, failures: failures.slice(0, failuresMax) };
  // A job that has ended has begun, whatever ended it.
  if (error !== undefined)
    return Object.assign(withPossibleEffect(new RemusterError(parseErrorCode(error.code), error.message)), details);
  const code = status in statusCodes ? statusCodes[status as keyof typeof statusCodes] : 'WORKFLOW_FAILED';
  return Object.assign(new RemusterError(code, `the job ${jobId} ended as ${status}`), details);
}

export function isJobFailure(value: unknown): value is JobFailure {
  return isRemusterError(value) && 'failures' in value && 'completed' in value;
}
