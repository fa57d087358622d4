/**
 * What a cancelled load test keeps: its units count with what their last attempt measured until it was stopped, because
 * measuring is their purpose. A batch keeps nothing of a stopped attempt: an item counts only together with its result.
 */
import type { UnitReport } from '../../../messages/jobs.ts';
import { decodeSummary } from '../../report/summary-codec.ts';
import type { ActiveAssignment, ManagedUnit, UnitResult } from '../model/managed-job.ts';

/** True for a unit that generates load and whose job is being cancelled. */
export function countsWhenCancelled({ workflow, phase }: ManagedUnit): boolean {
  const { facts, job } = workflow;
  return facts.load !== undefined && (phase === 'whole' || phase === 'work') && job.status === 'CANCELLING';
}

/**
 * The worker has confirmed the stop, and its report of the end is still on the way: it is resent until acknowledged. An
 * attempt that the worker never accepted has no end.
 */
export function awaitsMeasuredEnd({ unit, isAccepted }: ActiveAssignment): boolean {
  return isAccepted && countsWhenCancelled(unit);
}

/**
 * The counts of a killed runner may be newer than its summary: they are taken from the summary, so that totals and
 * steps agree.
 */
export function measuredResult({ completed, failed, durationMs = 0, summary }: UnitReport): UnitResult {
  const counts = countsIn(summary) ?? { completed, failed };
  const none = { output: undefined, outputBytes: 0, failures: undefined, failuresBytes: undefined };
  return { ...counts, ...none, durationMs, summary, summaryBytes: summary?.length ?? 0 };
}

/** Undefined without a readable summary. */
function countsIn(
  summary: Uint8Array | undefined,
): { readonly completed: number; readonly failed: number } | undefined {
  if (summary === undefined) return undefined;
  try {
    const { iterations, failed } = decodeSummary(summary);
    return { completed: iterations - failed, failed };
  } catch {
    return undefined;
  }
}
