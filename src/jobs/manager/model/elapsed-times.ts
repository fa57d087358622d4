/**
 * How long jobs and workflows ran on the manager clock: the one definition for views and reports, so that their rates
 * agree. Pure functions.
 */
import { isTerminalStatus } from '../../job-types.ts';
import type { ManagedJob, ManagedWorkflow } from './managed-job.ts';

/** Counted from the first assignment; for a job that ended without one, the time that it waited. */
export function jobElapsedMs(job: ManagedJob, managerClockMs: number): number {
  const { startedMs, submittedMs, submittedWallMs, startAtMs, status } = job;
  const untilMs = job.endedMs ?? managerClockMs;
  if (startedMs !== undefined) return Math.max(0, untilMs - startedMs);
  if (!isTerminalStatus(status)) return 0;
  const delayMs = Math.max(0, (startAtMs ?? 0) - submittedWallMs);
  return Math.max(0, untilMs - submittedMs - delayMs);
}

/** Of an ended workflow: from the first assignment to the end; 0 without an assignment. */
export function workflowElapsedMs({ startedMs, endedMs }: ManagedWorkflow): number {
  return startedMs === undefined || endedMs === undefined ? 0 : Math.max(0, endedMs - startedMs);
}
