/** What a worker reads in orders and in the words of runners. Functions without state. */
import type { ErrorCode } from '../../base/errors.ts';
import type { UnitAssignment } from '../../messages/jobs.ts';
import { type UnitNeeds, decodeNeeds } from '../unit-words.ts';
import type { RunEnd, Unit } from './unit.ts';

const behindBytesMax = 65_536;
const userCodes: ReadonlySet<string> = new Set<ErrorCode>([
  ...(['WORKFLOW_FAILED', 'BUNDLE_INVALID', 'TOO_LARGE', 'BAD_ARGUMENT', 'FORBIDDEN'] as const),
]);

/** The same runner can do it next. */
export function canFollow({ needs, order }: Unit, { needs: before }: Unit): boolean {
  return (
    order.length <= behindBytesMax &&
    needs.bundle === before.bundle &&
    needs.submitter === before.submitter &&
    needs.network === before.network &&
    needs.memoryMb === before.memoryMb
  );
}

/** Undefined for what cannot be read, or does not belong to this name. */
export function needsOf(given: UnitAssignment): UnitNeeds | undefined {
  try {
    const needs = decodeNeeds(given.spec);
    const fits = needs.job === given.job && needs.workflow === given.workflow && needs.unit === given.unit;
    return fits ? needs : undefined;
  } catch {
    return undefined;
  }
}

export function note(unit: Unit, word: Pick<RunEnd, 'completed' | 'failed' | 'summary'>): void {
  unit.completed = word.completed;
  unit.failed = word.failed;
  unit.summary = word.summary ?? unit.summary;
}

/** A runner may say what went wrong in the code it runs; what happens to itself is for others to say. */
export function userCode(code: string | undefined): ErrorCode {
  return code !== undefined && userCodes.has(code) ? (code as ErrorCode) : 'WORKFLOW_FAILED';
}
