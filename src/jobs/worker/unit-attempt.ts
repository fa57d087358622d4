/**
 * Holds one attempt of a unit at this worker: spec, core, runner, progress, stop cause. `over` is final. Never starts
 * or stops anything.
 */
import type { Cancel } from '../../base/ports.ts';
import type { AttemptId, UnitAssignment, UnitReport } from '../../messages/jobs.ts';
import type { RunnerEvent } from '../runner-protocol.ts';
import type { UnitRequirements } from '../unit-spec.ts';
import type { RunnerHandle } from './runner-handle.ts';

/**
 * `waiting` for a core; `behind`: the same, but already in the runner that is doing another one; `preparing`: it has a
 * core, and waits for its code; `running` in a runner; `ending`: its runner was told to stop or is being killed, and holds
 * the core until it is gone; `over`.
 */
export type UnitAttemptState = 'waiting' | 'behind' | 'preparing' | 'running' | 'ending' | 'over';

/** Why a unit is ended by somebody else. */
export type StopCause = {
  /** For `ctx.signal.reason` and for people. */
  readonly why: string;
  /** What is told of it, unless it ends well before that. */
  readonly as: 'cancelled' | 'timeout' | 'returned';
  readonly graceMs: number;
};

export type RunEndedEvent = Extract<RunnerEvent, { readonly kind: 'ended' }>;

export class UnitAttempt {
  readonly key: string;
  readonly name: AttemptId;
  readonly requirements: UnitRequirements;
  readonly spec: Uint8Array;
  readonly givenMs: number;
  state: UnitAttemptState = 'waiting';
  core: number | undefined;
  runner: RunnerHandle | undefined;
  /** Its number in that runner. */
  runId = 0;
  /** Those that wait in the same runner, in order. */
  prefetched: UnitAttempt[] = [];
  /** When its runner said that it began. */
  startedMs: number | undefined;
  completed = 0;
  failed = 0;
  summary: Uint8Array | undefined;
  stopCause: StopCause | undefined;
  /** How often a runner was gone before it began with this unit. */
  startFailures = 0;
  /** Its time on a core is over then. */
  timeoutAtMs = Infinity;
  cancelGraceTimer: Cancel | undefined;
  graceEndMs = Infinity;
  readonly onOver: (() => void)[] = [];

  constructor(key: string, given: UnitAssignment, needs: UnitRequirements, nowMs: number) {
    const { job, workflow, unit, attempt, fence, spec } = given;
    this.key = key;
    this.name = { job, workflow, unit, attempt, fence };
    this.requirements = needs;
    this.spec = spec;
    this.givenMs = nowMs;
  }

  /** How far it is. */
  progress(nowMs: number): UnitReport {
    const what = this.summary === undefined && this.completed + this.failed === 0 ? 'started' : 'progress';
    return this.#news(nowMs, what, {});
  }

  end(nowMs: number, what: UnitReport['status'], more: Partial<UnitReport>): UnitReport {
    return this.#news(nowMs, what, more);
  }

  #news(nowMs: number, status: UnitReport['status'], more: Partial<UnitReport>): UnitReport {
    const { completed, failed, summary, startedMs } = this;
    const { output, code, message: why, found, failures } = more;
    const { job, workflow, unit, attempt, fence } = this.name;
    // Without it nothing of the unit was ever run.
    const durationMs = startedMs === undefined ? undefined : Math.max(0, Math.round(nowMs - startedMs));
    // In one piece: this is made for every unit.
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
      message: why,
      found,
      durationMs,
      failures,
    };
  }
}
