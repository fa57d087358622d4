/** What a worker reads in orders and in the words of runners. Functions without state. */
import type { ErrorCode } from '../../base/errors.ts';
import type { UnitAssignment } from '../../messages/jobs.ts';
import { type UnitRequirements, decodeUnitRequirements } from '../unit-spec.ts';
import type { RunEndedEvent, UnitAttempt } from './unit-attempt.ts';

const behindBytesMax = 65_536;
const userCodes: ReadonlySet<string> = new Set<ErrorCode>([
  ...(['WORKFLOW_FAILED', 'BUNDLE_INVALID', 'TOO_LARGE', 'BAD_ARGUMENT', 'FORBIDDEN'] as const),
]);

/** The same runner can do it next. */
export function canShareRunner({ requirements, spec }: UnitAttempt, { requirements: before }: UnitAttempt): boolean {
  return (
    spec.length <= behindBytesMax &&
    requirements.bundle === before.bundle &&
    requirements.submitter === before.submitter &&
    requirements.network === before.network &&
    requirements.memoryMb === before.memoryMb
  );
}

/** Undefined for what cannot be read, or does not belong to this name. */
export function parseRequirements(given: UnitAssignment): UnitRequirements | undefined {
  try {
    const needs = decodeUnitRequirements(given.spec);
    const fits = needs.job === given.job && needs.workflow === given.workflow && needs.unit === given.unit;
    return fits ? needs : undefined;
  } catch {
    return undefined;
  }
}

export function recordProgress(unit: UnitAttempt, word: Pick<RunEndedEvent, 'completed' | 'failed' | 'summary'>): void {
  unit.completed = word.completed;
  unit.failed = word.failed;
  unit.summary = word.summary ?? unit.summary;
}

/** A runner may say what went wrong in the code it runs; what happens to itself is for others to say. */
export function userErrorCode(code: string | undefined): ErrorCode {
  return code !== undefined && userCodes.has(code) ? (code as ErrorCode) : 'WORKFLOW_FAILED';
}
