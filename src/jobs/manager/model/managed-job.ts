/**
 * Owns the in-memory job, workflow, unit and assignment of the leading manager. At most one current assignment per
 * unit. Never changes state itself.
 */
import type { NodeId } from '../../../base/ids.ts';
import {
  type AttemptOutcome,
  type JobRequest,
  type JobStatus,
  type WorkflowStatus,
  isSuccess,
} from '../../job-types.ts';
import type { IncidentRecord, UnitRecord, WorkflowRecord } from '../../records/job-record.ts';
import type { UnitPhase } from '../../unit-spec.ts';
import type { Summary } from '../../report/summary.ts';
import type { WorkflowFacts } from '../../workflow-facts.ts';
import type { WorkerSession } from './worker-table.ts';

export type Attempt = {
  readonly worker: NodeId;
  readonly name: string;
  readonly generation: number;
  readonly attempt: number;
  readonly fence: bigint;
  outcome: AttemptOutcome;
};

export type StopReason = 'cancelled' | 'timeout' | 'superseded';

/** One attempt that a worker has, or may have: it takes up a core of that worker until it surely does not run there. */
export type ActiveAssignment = {
  readonly unit: ManagedUnit;
  readonly attempt: Attempt;
  readonly worker: WorkerSession;
  /** The worker said that it has it. */
  isTaken: boolean;
  /** It was recorded that the worker has it: only then is it sent. */
  isRecorded: boolean;
  sentMs: number;
  /** Reports in a row that do not name it although it was sent long before. */
  missedHeartbeats: number;
  /** Somebody wants it to end, and the worker has not confirmed that yet. */
  stopping: StopReason | undefined;
};

export type UnitResult = NonNullable<UnitRecord['end']>;

export type LiveProgress = {
  readonly completed: number;
  readonly failed: number;
  readonly summary: Uint8Array | undefined;
};

export type ManagedUnit = {
  readonly workflow: ManagedWorkflow;
  readonly number: number;
  readonly phase: UnitPhase;
  /** `storing`: its end is here and is being written. */
  state: 'waiting' | 'assigned' | 'running' | 'storing' | 'done' | 'failed' | 'cancelled';
  attempts: Attempt[];
  end: UnitResult | undefined;
  /** The present attempt. */
  assignment: ActiveAssignment | undefined;
  /** The latest progress of the present attempt. */
  liveProgress: LiveProgress | undefined;
  /** What it gave, while that may be needed by others. */
  output: Uint8Array | undefined;
};

export type PlanResult = {
  /** JSON of what setup gave. */
  readonly data: string | undefined;
  readonly list: readonly unknown[] | undefined;
};

export type ManagedWorkflow = {
  readonly job: ManagedJob;
  readonly index: number;
  readonly facts: WorkflowFacts;
  /** JSON of the facts, the same for all its units. */
  readonly factsText: string;
  status: WorkflowStatus;
  phase: WorkflowRecord['phase'];
  /** Of `work` or `whole`. */
  units: ManagedUnit[];
  plan: ManagedUnit | undefined;
  finish: ManagedUnit | undefined;
  /** Units of the present phase that nobody has, the next one last. */
  waiting: ManagedUnit[];
  /** Units of the present phase that a worker has. */
  active: number;
  /** Units of `work` or `whole` that are done. */
  done: number;
  /** Its units may be given: they were recorded. */
  areUnitsRecorded: boolean;
  /** So many cores at one time before the first unit of the phase is given; 1 after that. */
  coresToStart: number;
  readyMs: number;
  startedMs: number | undefined;
  endedMs: number | undefined;
  items: number | undefined;
  planned: PlanResult | undefined;
  /** JSON of what those before it handed on; made when it is first needed. */
  context: string | undefined;
  /** JSON of what it hands on; undefined while it is not over, or if it is too large. */
  value: string | undefined;
  errorCode: string | undefined;
  errorMessage: string | undefined;
  foundUnit: number | undefined;
  /** Of all its units together. */
  outputBytes: number;
  /** Failed items that its units list: at most `failuresMax`. */
  failuresListed: number;
  /** The first failure that was reported to this leader, for people; a later leader may know of none. */
  failureSample: string | undefined;
  /** Bytes of outputs that are kept in memory to be handed on; undefined once they are too many. */
  retainedBytes: number | undefined;
  /** What watchers have seen of ends; undefined while nobody watches. */
  watched: Summary | undefined;
  /** For rates: when and how many the last time, and the rate of then. */
  pace: { atMs: number; ended: number; ratePerSecond: number };
};

export type ManagedJob = {
  readonly id: string;
  /** Where its state is recorded. One text for all who ask: a new one would have to be hashed each time. */
  readonly stateKey: string;
  readonly submitter: string;
  readonly submittedWallMs: number;
  /** In the time of the managers. */
  readonly submittedMs: number;
  readonly seed: number;
  readonly key: string | undefined;
  readonly hash: string | undefined;
  readonly request: JobRequest;
  /** As it came; empty once it is recorded. */
  requestJson: string;
  readonly requestBytes: number;
  status: JobStatus;
  /** What others may know: recorded. */
  recordedStatus: JobStatus;
  startedWallMs: number | undefined;
  endedWallMs: number | undefined;
  startedMs: number | undefined;
  endedMs: number | undefined;
  errorCode: string | undefined;
  errorMessage: string | undefined;
  workflows: readonly ManagedWorkflow[];
  readonly incidents: IncidentRecord[];
  /** Its units lie in its state and not in blocks. */
  readonly isInline: boolean;
  isRecorded: boolean;
  /** So much of it lies apart. */
  outOfLineBytes: number;
  hasBlocks: boolean;
  /** On the clock of this leader. */
  deadlineMs: number;
  /** Wall clock; undefined: at once. */
  readonly startAtMs: number | undefined;
  version: number;
  /** The version that watchers were last told of is older than what is known. */
  hasUnpublishedChange: boolean;
};

export function findUnit(workflow: ManagedWorkflow, number: number): ManagedUnit | undefined {
  if (workflow.plan?.number === number) return workflow.plan;
  if (workflow.finish?.number === number) return workflow.finish;
  return workflow.units[number];
}

export function* allUnits(workflow: ManagedWorkflow): Generator<ManagedUnit> {
  if (workflow.plan !== undefined) yield workflow.plan;
  yield* workflow.units;
  if (workflow.finish !== undefined) yield workflow.finish;
}

export function isWorkflowEnded(workflow: ManagedWorkflow): boolean {
  const { status } = workflow;
  return isSuccess(status) || status === 'FAILED' || status === 'CANCELLED';
}

/** Attempts that used up one of its chances. */
export function countedAttempts(unit: ManagedUnit): number {
  let count = 0;
  for (const { outcome } of unit.attempts) if (outcome !== 'refused' && outcome !== 'returned') count += 1;
  return count;
}

/** What is counted of a workflow, disjoint: ends that were recorded, and the progress of units that run. */
export function itemCountsOf(
  workflow: ManagedWorkflow,
  withLive: boolean,
): { readonly completed: number; readonly failed: number } {
  let completed = 0;
  let failed = 0;
  for (const unit of workflow.units) {
    const part = unit.end ?? (withLive ? unit.liveProgress : undefined);
    completed += part?.completed ?? 0;
    failed += part?.failed ?? 0;
  }
  return { completed, failed };
}
