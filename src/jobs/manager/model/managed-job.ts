/**
 * Job, workflow, unit and assignment in the memory of the leading manager. A unit has at most one current assignment.
 * Types and pure functions; the parts of the manager change the state.
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

/** An attempt that a worker runs or may run: it occupies a core of that worker until it surely does not run there. */
export type ActiveAssignment = {
  readonly unit: ManagedUnit;
  readonly attempt: Attempt;
  readonly worker: WorkerSession;
  /** The worker reported that it has the attempt. */
  isAccepted: boolean;
  /** The assignment is recorded; it is not sent before. */
  isRecorded: boolean;
  sentMs: number;
  /** Consecutive heartbeats that do not list it although it was sent long before. */
  missedHeartbeats: number;
  /** Why it is being stopped; the worker has not confirmed yet. */
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
  /** `storing`: its result is being written. */
  state: 'waiting' | 'assigned' | 'running' | 'storing' | 'done' | 'failed' | 'cancelled';
  attempts: Attempt[];
  end: UnitResult | undefined;
  /** The current attempt. */
  assignment: ActiveAssignment | undefined;
  /** Latest progress of the current attempt. */
  liveProgress: LiveProgress | undefined;
  /** Output of the unit, while later units or workflows may need it. */
  output: Uint8Array | undefined;
};

export type PlanResult = {
  /** Result of setup: JSON. */
  readonly data: string | undefined;
  readonly list: readonly unknown[] | undefined;
};

export type ManagedWorkflow = {
  readonly job: ManagedJob;
  readonly index: number;
  readonly facts: WorkflowFacts;
  /** JSON of the facts. */
  readonly factsText: string;
  status: WorkflowStatus;
  phase: WorkflowRecord['phase'];
  /** Units of phase `work` or `whole`. */
  units: ManagedUnit[];
  plan: ManagedUnit | undefined;
  finish: ManagedUnit | undefined;
  /** Unassigned units of the current phase; the next one is the last. */
  waiting: ManagedUnit[];
  /** Units of the current phase with an assignment. */
  active: number;
  /** Units of `work` or `whole` that are done. */
  done: number;
  /** Units may be assigned only once it is recorded that they exist. */
  areUnitsRecorded: boolean;
  /** Cores needed at a time to assign the first unit of the phase; 1 after that. */
  coresToStart: number;
  readyMs: number;
  startedMs: number | undefined;
  endedMs: number | undefined;
  items: number | undefined;
  planned: PlanResult | undefined;
  /** JSON of the values of the workflows before it; computed on first use. */
  context: string | undefined;
  /** JSON that it passes to its dependents; undefined before its end and if it is too large. */
  value: string | undefined;
  errorCode: string | undefined;
  errorMessage: string | undefined;
  foundUnit: number | undefined;
  /** Outputs of all units together. */
  outputBytes: number;
  /** 0 <= failuresListed <= failuresMax. */
  failuresListed: number;
  /** First failure that was reported to this leader, for display; a later leader may know none. */
  failureSample: string | undefined;
  /** Size of the outputs in memory for dependents; undefined once it exceeds the limit. */
  retainedBytes: number | undefined;
  /** Merged counts of ended units, for watchers; undefined without a watcher so far. */
  watched: Summary | undefined;
  /** Last sample of the rate. */
  rateSample: { atMs: number; ended: number; ratePerSecond: number };
};

export type ManagedJob = {
  readonly id: string;
  /** Key of its state. One string per job, because a new string would be hashed on each use. */
  readonly stateKey: string;
  readonly submitter: string;
  readonly submittedWallMs: number;
  /** On the manager clock. */
  readonly submittedMs: number;
  readonly seed: number;
  readonly key: string | undefined;
  readonly hash: string | undefined;
  readonly request: JobRequest;
  /** The request as submitted; empty once it is recorded. */
  requestJson: string;
  readonly requestBytes: number;
  status: JobStatus;
  /** The recorded status, which clients see. */
  recordedStatus: JobStatus;
  startedWallMs: number | undefined;
  endedWallMs: number | undefined;
  startedMs: number | undefined;
  endedMs: number | undefined;
  errorCode: string | undefined;
  errorMessage: string | undefined;
  workflows: readonly ManagedWorkflow[];
  readonly incidents: IncidentRecord[];
  /** Units are recorded in the state of the job, not in blocks. */
  readonly isInline: boolean;
  isRecorded: boolean;
  /** Size of its results that are stored out of line. */
  outOfLineBytes: number;
  hasBlocks: boolean;
  /** On the clock of this leader. */
  deadlineMs: number;
  /** Wall clock; undefined starts at once. */
  readonly startAtMs: number | undefined;
  version: number;
  /** The state has changed since watchers last saw `version`. */
  hasUnpublishedChange: boolean;
};

const versionsPerTerm = 2 ** 28;

/** Later than every version of an earlier leader. */
export function firstJobVersion(term: number): number {
  return (term % 2 ** 24) * versionsPerTerm + 1;
}

export function jobDisplayName({ request }: ManagedJob): string {
  return request.name ?? (request.workflows[0] as WorkflowFacts).name;
}

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

/** Attempts that count against `maxRetries`. */
export function countedAttempts(unit: ManagedUnit): number {
  let count = 0;
  for (const { outcome } of unit.attempts) if (outcome !== 'refused' && outcome !== 'returned') count += 1;
  return count;
}

/** Items of the results, and `withLive` also of the progress of running units; the two counts are disjoint. */
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
