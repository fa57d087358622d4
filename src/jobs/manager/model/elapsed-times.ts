/**
 * How long jobs and workflows ran, in the time of the managers: the one definition for views and reports, so that their
 * rates agree. Pure; keeps nothing.
 */
import { isTerminalStatus } from '../../job-types.ts';
import type { ManagedJob, ManagedWorkflow } from './managed-job.ts';

/** From its first assignment on. A job that ended without one: as long as it waited. */
export function jobElapsedMs(job: ManagedJob, managerMs: number): number {
  const { startedMs, submittedMs, submittedWallMs, startAtMs, status } = job;
  const untilMs = job.endedMs ?? managerMs;
  if (startedMs !== undefined) return Math.max(0, untilMs - startedMs);
  if (!isTerminalStatus(status)) return 0;
  const delayMs = Math.max(0, (startAtMs ?? 0) - submittedWallMs);
  return Math.max(0, untilMs - submittedMs - delayMs);
}

/** Of one that is over: from its first assignment to its end; 0 if it never had one. */
export function workflowElapsedMs({ startedMs, endedMs }: ManagedWorkflow): number {
  return startedMs === undefined || endedMs === undefined ? 0 : Math.max(0, endedMs - startedMs);
}
