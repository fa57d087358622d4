/** The error of a job that did not complete: code, status, counts, the first failed items. Never sends a request. */
import {
  RemusterError,
  isRemusterError,
  parseErrorCode,
  withPossibleEffect,
  withStateChanged,
} from '../base/errors.ts';
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
  /** At most 1,000 of the failed items, in order. */
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
  const code = status in statusCodes ? statusCodes[status as keyof typeof statusCodes] : 'WORKFLOW_FAILED';
  const thrown =
    error === undefined
      ? new RemusterError(code, `job ${jobId} ended with status ${status}`)
      : new RemusterError(parseErrorCode(error.code), error.message);
  return Object.assign(withEffectOf(status, thrown), details);
}

/** A PARTIAL or FAILED job has executed work; a cancelled or timed-out one may have. */
function withEffectOf(status: JobStatus, error: RemusterError): RemusterError {
  const hasRun = status === 'PARTIAL' || status === 'FAILED';
  return hasRun ? withStateChanged(error, 'yes') : withPossibleEffect(error);
}

export function isJobFailure(value: unknown): value is JobFailure {
  return isRemusterError(value) && 'failures' in value && 'completed' in value;
}
