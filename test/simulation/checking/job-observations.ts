/** Facts that simulated jobs report, as data, in world time. No behaviour. */
import type { AttemptView, JobStatus } from '../../../src/jobs/job-types.ts';
import type { JobPlan } from '../workloads/jobs/job-plans.ts';

/** One process runs a unit of a job. The fake code reports it, not the worker. */
export type UnitRun = {
  /** Counted from 1 over the whole world. */
  readonly run: number;
  readonly node: string;
  readonly job: string;
  readonly workflow: number;
  readonly unit: number;
  /** The attempt that was assigned to this worker; 0 if none was. */
  readonly attempt: number;
  readonly fence: bigint;
};

export type ItemCounts = { readonly completed: number; readonly failed: number };

/** What a client reads of a job. */
export type ObservedJob = {
  readonly job: string;
  readonly status: JobStatus;
  readonly totals: ItemCounts;
  readonly code: string | undefined;
  /** By workflow; undefined if the request does not return them. */
  readonly attempts: readonly (readonly AttemptView[])[] | undefined;
  /** When the client sent the request. */
  readonly requestedMs: number;
};

export type JobObservation =
  /** A client submits it for the first time. */
  | { readonly kind: 'jobSubmitted'; readonly plan: JobPlan }
  /** A client got the reply that it is accepted. */
  | { readonly kind: 'jobAccepted'; readonly plan: JobPlan; readonly job: string; readonly isNew: boolean }
  /** A manager refused it for good. */
  | { readonly kind: 'jobRefused'; readonly plan: JobPlan; readonly code: string; readonly message: string }
  /** A different request was accepted under the same idempotency key. */
  | { readonly kind: 'keyReused'; readonly plan: JobPlan }
  | { readonly kind: 'cancelRequested'; readonly job: string }
  | { readonly kind: 'cancelAcknowledged'; readonly job: string; readonly status: JobStatus; readonly graceMs: number }
  | { readonly kind: 'jobObserved'; readonly view: ObservedJob }
  /** An accepted job is unknown to a manager. */
  | { readonly kind: 'jobUnknown'; readonly job: string }
  /** The results by name of a workflow, as JSON. */
  | { readonly kind: 'resultRead'; readonly job: string; readonly results: Readonly<Record<string, unknown>> }
  /** A worker received an attempt, perhaps not for the first time. */
  | {
      readonly kind: 'unitAssigned';
      readonly node: string;
      readonly job: string;
      readonly workflow: number;
      readonly unit: number;
      readonly attempt: number;
      readonly fence: bigint;
    }
  /** A manager sends it for the first time. `forbidden`: why, as the manager knows, the worker must get nothing. */
  | {
      readonly kind: 'unitSent';
      readonly node: string;
      readonly job: string;
      readonly workflow: number;
      readonly unit: number;
      readonly forbidden: string | undefined;
    }
  /** The worker returned or refused it before it started: no failure. */
  | { readonly kind: 'unitReturned'; readonly job: string; readonly workflow: number; readonly unit: number }
  /** `alsoRunBy` run the same unit at this instant; `together` is how many units run on that node now. */
  | (UnitRun & {
      readonly kind: 'unitStarted';
      /** The name of the plan, which travels with the job. */
      readonly plan: string;
      readonly specHash: string;
      readonly alsoRunBy: readonly string[];
      readonly together: number;
      readonly cores: number;
    })
  /** The unit has an effect. `msSinceResume`: since the last pause of its process ended. */
  | (UnitRun & { readonly kind: 'unitActed'; readonly msSinceResume: number })
  /** The outcome that the code reports. */
  | (UnitRun & { readonly kind: 'unitEnded'; readonly outcome: string; readonly totals: ItemCounts })
  /** The code found a broken promise. */
  | (UnitRun & { readonly kind: 'unitInconsistent'; readonly message: string })
  /** From now on every job is read for the last time. */
  | { readonly kind: 'lastReadStarted' }
  | {
      readonly kind: 'coresRead';
      readonly node: string;
      readonly total: number;
      readonly free: number;
      readonly runs: number;
    };
