/**
 * Types of a job: request, statuses, views, progress, incidents. A status only moves forward in the order given here.
 */
import type { WorkflowFacts, WorkflowStyle } from './workflow-facts.ts';

/** In this order; a job never returns to an earlier status. */
export const jobStatuses = [
  'SUBMITTED',
  'QUEUED',
  'DISPATCHING',
  'RUNNING',
  'COMPLETING',
  'CANCELLING',
  'COMPLETED',
  'PARTIAL',
  'FAILED',
  'CANCELLED',
  'TIMEOUT',
] as const;
export type JobStatus = (typeof jobStatuses)[number];

export const workflowStatuses = [
  'PENDING',
  'ASSIGNED',
  'RUNNING',
  'COMPLETED',
  'PARTIAL',
  'FAILED',
  'CANCELLED',
] as const;
export type WorkflowStatus = (typeof workflowStatuses)[number];

/** Every other status is terminal. */
const openStatuses: ReadonlySet<JobStatus> = new Set([
  ...(['SUBMITTED', 'QUEUED', 'DISPATCHING', 'RUNNING', 'COMPLETING', 'CANCELLING'] as const),
]);

export function isTerminalStatus(status: JobStatus): boolean {
  return !openStatuses.has(status);
}

/** True if workflows that depend on this one may start. */
export function isSuccess(status: WorkflowStatus): boolean {
  return status === 'COMPLETED' || status === 'PARTIAL';
}

/** Arguments of `submit`. */
export type JobRequest = {
  /** Display name; the name of the first workflow if left out. */
  readonly name?: string;
  /** SHA-256 of the bundle in hexadecimal digits; the bundle is stored before (`storeBundle`). */
  readonly bundle: string;
  readonly workflows: readonly WorkflowFacts[];
  readonly env?: Readonly<Record<string, string>>;
  /** The same key with equal content names the same job; with other content the request is refused (PRECONDITION). */
  readonly idempotencyKey?: string;
  /** 0 (default) to 9; higher priorities go first. */
  readonly priority?: number;
  /** Timeout of the whole job, counted from its submission or its start time. */
  readonly timeoutMs?: number;
  /** Earliest start, wall clock. */
  readonly startAtMs?: number;
  /** Five fields, UTC. Creates a schedule, not a job, and needs an idempotencyKey, which names the schedule. */
  readonly cron?: string;
  /** Seed of `ctx.random`; the manager draws one if it is left out. */
  readonly seed?: number;
};

export type SubmitReply = { readonly jobId: string; readonly status: JobStatus; readonly isNew: boolean };

export type AttemptOutcome = 'running' | 'completed' | 'failed' | 'cancelled' | 'lost' | 'refused' | 'returned';

export type AttemptView = {
  /** Name of the node. */
  readonly worker: string;
  readonly cores: number;
  readonly fence: string;
  readonly outcome: AttemptOutcome;
  readonly unit: number;
  readonly attempt: number;
};

export type WorkflowView = {
  readonly id: string;
  readonly name: string;
  readonly style: WorkflowStyle;
  readonly status: WorkflowStatus;
  readonly attempts: readonly AttemptView[];
  /** Items or iterations that succeeded; disjoint from `failed`. */
  readonly completed: number;
  readonly failed: number;
  readonly ratePerSecond: number;
  readonly units: { readonly total: number; readonly done: number; readonly running: number };
  readonly error?: { readonly code: string; readonly message: string };
};

/** `job show`. */
export type JobView = {
  readonly jobId: string;
  readonly name: string;
  readonly status: JobStatus;
  readonly submitter: string;
  readonly priority: number;
  readonly submittedAtMs: number;
  readonly startedAtMs: number | null;
  readonly endedAtMs: number | null;
  readonly timeoutMs: number;
  /** While the job is queued: its position from 1, and why it waits. */
  readonly queue: { readonly position: number; readonly reason: string } | null;
  readonly workflows: readonly WorkflowView[];
  readonly datacenters: readonly { readonly dc: string; readonly status: JobStatus }[];
  readonly totals: { readonly completed: number; readonly failed: number };
  readonly error?: { readonly code: string; readonly message: string };
};

/** One row of `job list`. */
export type JobRow = Pick<JobView, 'jobId' | 'name' | 'status' | 'submitter' | 'submittedAtMs' | 'endedAtMs'> & {
  readonly completed: number;
  readonly failed: number;
};

/** Reply to a wait for the end. The status is not terminal if the wait ended first. */
export type JobOutcome = Pick<JobView, 'jobId' | 'status' | 'error'>;

/** Reply to a watch: the full state, never a difference. `version` grows with each change. */
export type JobProgress = {
  readonly jobId: string;
  readonly version: number;
  readonly status: JobStatus;
  readonly elapsedMs: number;
  readonly completed: number;
  readonly failed: number;
  readonly ratePerSecond: number;
  /** Null until something is measured. */
  readonly latencyMs: { readonly p50: number; readonly p95: number; readonly p99: number } | null;
  readonly queue: JobView['queue'];
  readonly workflows: readonly Pick<
    WorkflowView,
    'id' | 'name' | 'status' | 'completed' | 'failed' | 'ratePerSecond' | 'units'
  >[];
  /** Names of the workers that run units of the job now. */
  readonly workers: readonly string[];
  readonly incidents: readonly Incident[];
};

/** A problem while the job ran, and its effect. */
export type Incident = {
  /** ISO 8601. */
  readonly time: string;
  readonly type: 'worker.lost' | 'runner.killed' | 'unit.retried' | 'unit.returned' | 'leader.changed' | 'unit.failed';
  readonly node: string;
  readonly effect: string;
};
