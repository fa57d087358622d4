/**
 * Holds one attempt of a unit on this worker: spec, core, runner, progress, stop cause. `ended` is final. Never starts
 * or stops anything.
 */
import type { ErrorCode } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type { AttemptId, UnitAssignment, UnitReport } from '../../messages/jobs.ts';
import type { RunnerEvent } from '../runner-protocol.ts';
import { type UnitRequirements, decodeUnitRequirements } from '../unit-spec.ts';
import type { RunnerHandle } from './runner-handle.ts';

/**
 * - `waiting` for a core
 * - `prefetched`: waiting inside the runner that runs another attempt
 * - `preparing`: has a core and waits for its code
 * - `running` in a runner
 * - `stopping`: its runner was asked to stop or is being killed; the core is held until the process has exited
 * - `ended`
 */
export type UnitAttemptState = 'waiting' | 'prefetched' | 'preparing' | 'running' | 'stopping' | 'ended';

/** Why the worker stops an attempt. */
export type StopCause = {
  /** For `ctx.signal.reason` and the report. */
  readonly reason: string;
  /** Reported outcome, unless the attempt completes first. */
  readonly outcome: 'cancelled' | 'timeout' | 'returned';
  readonly graceMs: number;
};

/** Largest spec that is prefetched into a busy runner. */
const prefetchedSpecBytesMax = 65_536;
/** Codes that a runner may report about user code; the worker itself reports what happens to the runner. */
const userCodes: ReadonlySet<string> = new Set<ErrorCode>([
  ...(['WORKFLOW_FAILED', 'BUNDLE_INVALID', 'TOO_LARGE', 'BAD_ARGUMENT', 'FORBIDDEN'] as const),
]);

export type RunEndedEvent = Extract<RunnerEvent, { readonly kind: 'ended' }>;

export class UnitAttempt {
  readonly key: string;
  readonly id: AttemptId;
  readonly requirements: UnitRequirements;
  readonly spec: Uint8Array;
  readonly acceptedMs: number;
  state: UnitAttemptState = 'waiting';
  core: number | undefined;
  runner: RunnerHandle | undefined;
  /** Number of the run in that runner. */
  runId = 0;
  /** Attempts that wait in the same runner, in order. */
  prefetched: UnitAttempt[] = [];
  /** When its runner reported the start. */
  startedMs: number | undefined;
  completed = 0;
  failed = 0;
  summary: Uint8Array | undefined;
  stopCause: StopCause | undefined;
  /** How often a runner exited before it started this attempt. */
  startFailures = 0;
  /** End of its time on a core. */
  timeoutAtMs = Infinity;
  cancelGraceTimer: Cancel | undefined;
  graceEndMs = Infinity;
  readonly onEnded: (() => void)[] = [];

  constructor(key: string, assignment: UnitAssignment, requirements: UnitRequirements, nowMs: number) {
    const { job, workflow, unit, attempt, fence, spec } = assignment;
    this.key = key;
    this.id = { job, workflow, unit, attempt, fence };
    this.requirements = requirements;
    this.spec = spec;
    this.acceptedMs = nowMs;
  }

  progressReport(nowMs: number): UnitReport {
    const status = this.summary === undefined && this.completed + this.failed === 0 ? 'started' : 'progress';
    return this.report(nowMs, status, {});
  }

  report(nowMs: number, status: UnitReport['status'], more: Partial<UnitReport>): UnitReport {
    const { completed, failed, summary, startedMs } = this;
    const { output, code, message, found, failures } = more;
    const { job, workflow, unit, attempt, fence } = this.id;
    // Absent if no user code of the unit ran.
    const durationMs = startedMs === undefined ? undefined : Math.max(0, Math.round(nowMs - startedMs));
    // No spread: this runs for every unit.
    return {
      job,
      workflow,
      unit,
      attempt,
      fence,
      status,
      completed,
      failed,
      summary,
      output,
      code,
      message,
      found,
      durationMs,
      failures,
    };
  }
}

/** True if the runner of `before` can run the unit next. */
export function canShareRunner({ requirements, spec }: UnitAttempt, { requirements: before }: UnitAttempt): boolean {
  return (
    spec.length <= prefetchedSpecBytesMax &&
    requirements.bundle === before.bundle &&
    requirements.submitter === before.submitter &&
    requirements.network === before.network &&
    requirements.memoryMb === before.memoryMb
  );
}

/** Undefined if the spec cannot be decoded or belongs to another unit. */
export function parseRequirements({ spec, job, workflow, unit }: UnitAssignment): UnitRequirements | undefined {
  try {
    const found = decodeUnitRequirements(spec);
    return found.job === job && found.workflow === workflow && found.unit === unit ? found : undefined;
  } catch {
    return undefined;
  }
}

export function recordProgress(
  unit: UnitAttempt,
  { completed, failed, summary }: Pick<RunEndedEvent, 'completed' | 'failed' | 'summary'>,
): void {
  unit.completed = completed;
  unit.failed = failed;
  unit.summary = summary ?? unit.summary;
}

export function userErrorCode(code: string | undefined): ErrorCode {
  return code !== undefined && userCodes.has(code) ? (code as ErrorCode) : 'WORKFLOW_FAILED';
}
