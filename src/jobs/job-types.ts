/**
 * Owns the types of a job: request, statuses, views, progress, incidents. A status only moves forward. Changes nothing
 * itself.
 */
import type { WorkflowFacts, WorkflowStyle } from './workflow-facts.ts';

/** In this order; a job never goes back. */
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

/** Reached before the end; every other status is one. */
const openStatuses: ReadonlySet<JobStatus> = new Set([
  ...(['SUBMITTED', 'QUEUED', 'DISPATCHING', 'RUNNING', 'COMPLETING', 'CANCELLING'] as const),
]);

export function isTerminalStatus(status: JobStatus): boolean {
  return !openStatuses.has(status);
}

/** Workflows after it may begin. */
export function isSuccess(status: WorkflowStatus): boolean {
  return status === 'COMPLETED' || status === 'PARTIAL';
}

/** The words of `submit`: JSON of a jobRequest. */
export type JobRequest = {
  /** For people; by default that of its first workflow. */
  readonly name?: string;
  /** Of its code, in hexadecimal digits. The code was stored before (`storeBundle`). */
  readonly bundle: string;
  readonly workflows: readonly WorkflowFacts[];
  readonly env?: Readonly<Record<string, string>>;
  /** The same key again, with the same content, is the same job; with other content it is refused (PRECONDITION). */
  readonly idempotencyKey?: string;
  /** 0 (default) to 9; higher ones go first. */
  readonly priority?: number;
  /** Of the whole job, from its submission on (or from its start time). */
  readonly timeoutMs?: number;
  /** Wall clock: not before. */
  readonly startAtMs?: number;
  /** Five fields, UTC: makes a schedule, not a job. Needs an idempotencyKey, which names the schedule. */
  readonly cron?: string;
  /** For `ctx.random`; drawn by the manager if left out. */
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
  /** Items (or iterations) that went well; no failed one is among them. */
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
  /** While it is queued: its place, counted from 1, and why it waits. */
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

/** What whoever waits for the end is told; the status is one of an end, or that of a job for which the wait was over. */
export type JobOutcome = Pick<JobView, 'jobId' | 'status' | 'error'>;

/** What a watcher is told: each time everything, never a difference. `version` grows with each change. */
export type JobProgress = {
  readonly jobId: string;
  readonly version: number;
  readonly status: JobStatus;
  readonly elapsedMs: number;
  readonly completed: number;
  readonly failed: number;
  readonly ratePerSecond: number;
  /** Null until something has been measured: zero would be a claim. */
  readonly latencyMs: { readonly p50: number; readonly p95: number; readonly p99: number } | null;
  readonly queue: JobView['queue'];
  readonly workflows: readonly Pick<
    WorkflowView,
    'id' | 'name' | 'status' | 'completed' | 'failed' | 'ratePerSecond' | 'units'
  >[];
  /** Workers that run something of it now, by name. */
  readonly workers: readonly string[];
  readonly incidents: readonly Incident[];
};

/** Something that went wrong while it ran, and what came of it. */
export type Incident = {
  /** ISO 8601. */
  readonly time: string;
  readonly type: 'worker.lost' | 'runner.killed' | 'unit.retried' | 'unit.returned' | 'leader.changed' | 'unit.failed';
  readonly node: string;
  readonly effect: string;
};
